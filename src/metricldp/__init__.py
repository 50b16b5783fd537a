"""metricldp: surveys under metric local differential privacy.

The data goes one way, and the modules read in that order:

survey -> encode (on the device) -> report -> tally (at the collector) -> query -> answer

A `Survey` is the public agreement: attributes, how far each may be told apart (the metric), and how
it is blurred (the channel). `survey.encode` blurs people's values with cryptographic coins;
`survey.tally` collects the reports; `tally.count`, `.fraction` and `.histogram` answer with an
unbiased value and its error. `survey.certify` proves the promise from the integers in use,
`survey.error` predicts the accuracy and `survey.explain` says both in words.
"""

from metricldp.answers import Answer, Histogram
from metricldp.attributes import Categorical, Continuous, Integer, Ordinal
from metricldp.certify import Certificate
from metricldp.coins import Coins
from metricldp.errors import (
    CertificateError,
    MetricLdpError,
    QueryError,
    ReportRefused,
    SeededCoinsWarning,
    SurveyError,
    ValueRefused,
)
from metricldp.survey import Survey
from metricldp.tally import Tally

__version__ = "0.1.0"

__all__ = [
    "Answer",
    "Categorical",
    "Certificate",
    "CertificateError",
    "Coins",
    "Continuous",
    "Histogram",
    "Integer",
    "MetricLdpError",
    "Ordinal",
    "QueryError",
    "ReportRefused",
    "SeededCoinsWarning",
    "Survey",
    "SurveyError",
    "Tally",
    "ValueRefused",
]
