"""metricldp: surveys under metric local differential privacy.

The data goes one way, and the rooms of the package stand in that order:

survey -> encode (on the device) -> report -> tally (at the collector) -> query -> answer

A `Survey` is the public agreement: attributes, how far each may be told apart (the metric), and how
it is blurred (the channel). `survey.encode` blurs people's values with cryptographic coins;
`survey.tally` collects the reports; `tally.count`, `.fraction` and `.histogram` answer with an
unbiased value and its error. `survey.certify` proves the promise from the integers in use,
`survey.predict` tells the accuracy and `survey.explain` says both in words.
"""

from metricldp.answers.answer import Answer
from metricldp.answers.answer_table import Answers
from metricldp.answers.circular import CircularMean
from metricldp.answers.conditions import all_of, any_of, between, none_of
from metricldp.answers.fits import Fit
from metricldp.answers.pooled import Pool, pool
from metricldp.answers.quantiles import Cdf, Quantile
from metricldp.answers.ratio import Ratio
from metricldp.answers.regression import Regression
from metricldp.answers.tally import Tally
from metricldp.answers.together import fit_together
from metricldp.answers.waves import Waves
from metricldp.api import Survey
from metricldp.app.drafts import Draft, draft
from metricldp.attributes.continuous import AutoBins, Continuous
from metricldp.attributes.integer import Cyclic, Integer
from metricldp.attributes.named import Categorical, Ordinal
from metricldp.attributes.real import Real
from metricldp.attributes.weight import Weight
from metricldp.basics.errors import (
    CertificateError,
    MetricLdpError,
    MissingLibrary,
    QueryError,
    ReportRefused,
    SeededCoinsWarning,
    SurveyError,
    TightenedMetricWarning,
    ValueRefused,
)
from metricldp.coins.stream import Coins
from metricldp.design.plans import MatrixPlan
from metricldp.design.unary import UnaryBits
from metricldp.design.workloads import Workload
from metricldp.metrics import Graph, Lp, Relative, SensitiveSet, Table, Tree
from metricldp.store.totals import Totals
from metricldp.survey.certify import Certificate
from metricldp.survey.ledger import Ledger

__version__ = "0.2.0.dev0"

__all__ = [
    "Answer",
    "Answers",
    "AutoBins",
    "Categorical",
    "Cdf",
    "Certificate",
    "CertificateError",
    "CircularMean",
    "Coins",
    "Continuous",
    "Cyclic",
    "Draft",
    "Fit",
    "Graph",
    "Integer",
    "Ledger",
    "Lp",
    "MatrixPlan",
    "MetricLdpError",
    "MissingLibrary",
    "Ordinal",
    "Pool",
    "Quantile",
    "QueryError",
    "Ratio",
    "Real",
    "Regression",
    "Relative",
    "ReportRefused",
    "SeededCoinsWarning",
    "SensitiveSet",
    "Survey",
    "SurveyError",
    "Table",
    "Tally",
    "TightenedMetricWarning",
    "Totals",
    "Tree",
    "UnaryBits",
    "ValueRefused",
    "Waves",
    "Weight",
    "Workload",
    "all_of",
    "any_of",
    "between",
    "draft",
    "fit_together",
    "none_of",
    "pool",
]
