"""metricldp: surveys under metric local differential privacy.

The data goes one way, and the modules read in that order:

survey -> encode (on the device) -> report -> tally (at the collector) -> query -> answer

A `Survey` is the public agreement: attributes, how far each may be told apart (the metric), and how
it is blurred (the channel). `survey.encode` blurs people's values with cryptographic coins;
`survey.tally` collects the reports; `tally.count`, `.fraction` and `.histogram` answer with an
unbiased value and its error. `survey.certify` proves the promise from the integers in use,
`survey.error` predicts the accuracy and `survey.explain` says both in words.
"""

from metricldp.answers import Answer, Histogram, Ratio
from metricldp.attributes import Categorical, Integer, Ordinal
from metricldp.certify import Certificate
from metricldp.coins import Coins
from metricldp.continuous import AutoBins, Continuous
from metricldp.errors import (
    CertificateError,
    MetricLdpError,
    QueryError,
    ReportRefused,
    SeededCoinsWarning,
    SurveyError,
    TightenedMetricWarning,
    ValueRefused,
)
from metricldp.ledger import Ledger
from metricldp.linear import Linear
from metricldp.metrics import Graph, Lp, SensitiveSet, Table, Tree
from metricldp.quantiles import Cdf, Quantile
from metricldp.real import Real
from metricldp.survey import Survey
from metricldp.tally import Tally
from metricldp.weights import Weight
from metricldp.workloads import Workload

__version__ = "0.1.0"

__all__ = [
    "Answer",
    "AutoBins",
    "Categorical",
    "Cdf",
    "Certificate",
    "CertificateError",
    "Coins",
    "Continuous",
    "Graph",
    "Histogram",
    "Integer",
    "Ledger",
    "Linear",
    "Lp",
    "MetricLdpError",
    "Ordinal",
    "Quantile",
    "QueryError",
    "Ratio",
    "Real",
    "ReportRefused",
    "SeededCoinsWarning",
    "SensitiveSet",
    "Survey",
    "SurveyError",
    "Table",
    "Tally",
    "TightenedMetricWarning",
    "Tree",
    "ValueRefused",
    "Weight",
    "Workload",
]
