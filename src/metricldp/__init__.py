"""Collect sensitive values under metric local differential privacy (metric LDP).

Respondents randomize their own values on their devices; a collector that nobody has to trust
estimates counts, means, quantiles and other statistics from the reports, each with its error.

SurveySpec -> Survey.design -> Survey.report (on the device) -> Survey.tally -> queries -> Estimate
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from metricldp.answers.answer import Estimate as Estimate
    from metricldp.answers.answer import Interval as Interval
    from metricldp.answers.conditions import between as between
    from metricldp.answers.fits import Fit as Fit
    from metricldp.answers.pooled import Pool as Pool
    from metricldp.answers.pooled import pool as pool
    from metricldp.answers.quantiles import Cdf as Cdf
    from metricldp.answers.quantiles import Quantile as Quantile
    from metricldp.answers.regression import Regression as Regression
    from metricldp.answers.suspicion import GoodnessOfFit as GoodnessOfFit
    from metricldp.answers.tally import Tally as Tally
    from metricldp.answers.wald import TestResult as TestResult
    from metricldp.answers.waves import Waves as Waves
    from metricldp.answers.waves import waves as waves
    from metricldp.api import Survey as Survey
    from metricldp.api import plan as plan
    from metricldp.attributes.continuous import AutoBins as AutoBins
    from metricldp.attributes.continuous import Continuous as Continuous
    from metricldp.attributes.integer import Integer as Integer
    from metricldp.attributes.named import Categorical as Categorical
    from metricldp.attributes.named import Ordinal as Ordinal
    from metricldp.attributes.weight import Weight as Weight
    from metricldp.basics.errors import (
        CertificateError as CertificateError,
    )
    from metricldp.basics.errors import (
        InvalidReportError as InvalidReportError,
    )
    from metricldp.basics.errors import (
        InvalidSpecError as InvalidSpecError,
    )
    from metricldp.basics.errors import (
        InvalidValueError as InvalidValueError,
    )
    from metricldp.basics.errors import (
        MetricLdpError as MetricLdpError,
    )
    from metricldp.basics.errors import (
        MissingDependencyError as MissingDependencyError,
    )
    from metricldp.basics.errors import (
        QueryError as QueryError,
    )
    from metricldp.basics.errors import (
        SeededRandomnessWarning as SeededRandomnessWarning,
    )
    from metricldp.basics.errors import (
        TightenedMetricWarning as TightenedMetricWarning,
    )
    from metricldp.basics.errors import (
        WeakGuaranteeWarning as WeakGuaranteeWarning,
    )
    from metricldp.estimate.table import EstimateTable as EstimateTable
    from metricldp.mechanisms.matrix import Matrix as Matrix
    from metricldp.mechanisms.randomness import Randomness as Randomness
    from metricldp.mechanisms.unary import Unary as Unary
    from metricldp.mechanisms.workloads import Workload as Workload
    from metricldp.metrics import (
        DistanceMatrix as DistanceMatrix,
    )
    from metricldp.metrics import (
        Graph as Graph,
    )
    from metricldp.metrics import (
        Lp as Lp,
    )
    from metricldp.metrics import (
        Relative as Relative,
    )
    from metricldp.metrics import (
        SensitiveSet as SensitiveSet,
    )
    from metricldp.metrics import (
        Tree as Tree,
    )
    from metricldp.planning.draft import draft as draft
    from metricldp.planning.expected_error import ExpectedError as ExpectedError
    from metricldp.planning.plan import Plan as Plan
    from metricldp.planning.risk import Risk as Risk
    from metricldp.store.totals import Totals as Totals
    from metricldp.survey.certify import Certificate as Certificate
    from metricldp.survey.explain import Explanation as Explanation
    from metricldp.survey.ledger import Accountant as Accountant
    from metricldp.survey.spec import SurveySpec as SurveySpec

__version__ = "0.2.0.dev0"

_MODULES = {
    "answers.answer": "Estimate Interval",
    "estimate.table": "EstimateTable",
    "answers.conditions": "between",
    "answers.fits": "Fit",
    "answers.pooled": "Pool pool",
    "answers.quantiles": "Cdf Quantile",
    "answers.regression": "Regression",
    "answers.suspicion": "GoodnessOfFit",
    "answers.tally": "Tally",
    "answers.wald": "TestResult",
    "answers.waves": "Waves waves",
    "api": "Survey plan",
    "attributes.continuous": "AutoBins Continuous",
    "attributes.integer": "Integer",
    "attributes.named": "Categorical Ordinal",
    "attributes.weight": "Weight",
    "basics.errors": "CertificateError InvalidReportError InvalidSpecError InvalidValueError "
    "MetricLdpError MissingDependencyError QueryError SeededRandomnessWarning "
    "TightenedMetricWarning WeakGuaranteeWarning",
    "mechanisms.randomness": "Randomness",
    "mechanisms.matrix": "Matrix",
    "mechanisms.unary": "Unary",
    "mechanisms.workloads": "Workload",
    "metrics": "DistanceMatrix Graph Lp Relative SensitiveSet Tree",
    "planning.draft": "draft",
    "planning.expected_error": "ExpectedError",
    "planning.plan": "Plan",
    "planning.risk": "Risk",
    "store.totals": "Totals",
    "survey.certify": "Certificate",
    "survey.explain": "Explanation",
    "survey.ledger": "Accountant",
    "survey.spec": "SurveySpec",
}
"""The public names of each module. Modules are imported when a name is first used."""

_PLACES = {name: module for module, names in _MODULES.items() for name in names.split()}

__all__ = ["__version__", *sorted(_PLACES)]  # noqa: PLE0604 - names are strings


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'metricldp' has no attribute {name!r}")
    found = getattr(importlib.import_module(f"metricldp.{_PLACES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return __all__
