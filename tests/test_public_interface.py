"""The names that users see: those of the interface of 1.0, and extras that may only become fewer.

A name or member that the interface does not define is in a table below. Whoever removes one
removes it from its table; nothing is added to a table.
"""

import functools
import subprocess
import sys

import pytest

import metricldp
from metricldp import (
    Categorical,
    Continuous,
    Integer,
    Ordinal,
    Randomness,
    Survey,
    SurveySpec,
    Weight,
    pool,
    waves,
)

NAMES = {
    *("SurveySpec", "Survey", "Tally", "Fit", "Pool", "Waves", "Totals"),
    *("Integer", "Continuous", "Ordinal", "Categorical", "Weight", "AutoBins"),
    *("Graph", "Tree", "SensitiveSet", "Relative", "DistanceMatrix", "Lp"),
    *("Matrix", "Unary", "Workload", "between"),
    *("Estimate", "EstimateTable", "Interval", "Cdf", "Regression", "TestResult"),
    *("Certificate", "Explanation", "ExpectedError", "Risk", "Plan"),
    *("pool", "waves", "plan", "draft"),
    *("Accountant", "Randomness", "SeededRandomnessWarning"),
    *("MetricLdpError", "InvalidSpecError", "InvalidValueError", "InvalidReportError"),
    *("QueryError", "CertificateError", "MissingDependencyError"),
}
EXTRA_NAMES = {
    "GoodnessOfFit",
    "Quantile",
    "TightenedMetricWarning",
    "WeakGuaranteeWarning",
    "__version__",
}

GROUPED = ["count", "fraction", "sum", "mean", "variance", "std", "quantile"]
QUERIES = {
    *(*GROUPED, "n", "cdf", "histogram", "top_k", "workload", "covariance", "correlation"),
    *("linear_regression", "independence_test", "trend_test", "goodness_of_fit_test"),
    *("contributions", "fit_distribution"),
}
NUMERIC = {"epsilon", "within", "per", "metric", "max_epsilon", "cyclic", "optional", "mechanism"}
MEMBERS = {
    "Survey": {
        *("design", "load", "save", "fingerprint", "attributes", "report", "randomize", "tally"),
        *("certify", "explain", "risk", "expected_error", "manifest", "verify"),
        *("presentation", "presentation_digest"),
    },
    "SurveySpec": {"attributes", "joint", "load", "save"},
    "Tally": QUERIES,
    "Fit": QUERIES,
    "Pool": QUERIES,
    "Waves": QUERIES,
    "Estimate": {
        *("value", "stderr", "n", "unit", "notes", "confidence_interval", "test"),
        *("poisoning_bounds", "to_dict", "plot"),
    },
    "EstimateTable": {
        *("iloc", "confidence_interval", "differences", "poisoning_bounds"),
        *("to_pandas", "to_polars", "to_arrow", "to_dict", "plot"),
    },
    "Integer": {"low", "high", "workload", *NUMERIC},
    "Continuous": {"low", "high", "bins", "edges", "rounding", "workload", *NUMERIC},
    "Continuous, rounded": {"low", "high", "rounding", "points", "workload", *NUMERIC} - {"metric"},
    "Ordinal": {"levels", "workload", *NUMERIC},
    "Categorical": {"categories", "workload", *NUMERIC} - {"within", "per", "cyclic"},
    "Weight": {"low", "high", "private", "epsilon", "optional", "mechanism"},
}
"""What the interface defines, without methods whose names begin with an underscore."""
EXTRA_OF_EVERY_ATTRIBUTE = """
    asks_whether axis bars beyond choose circle describe distance distances domain domain_of
    edges_of extremes grid_step in_bins is_cyclic is_public is_weight kind label metric_kind middle
    name_of named narrowest_bar numbers only_mechanism ordered position position_if_any
    positions public_ends rounded_at_random size source to_dict undecided unit until usual
    values_at
"""
EXTRA_MEMBERS = {
    "Survey": """
        asked block_of blocks channels client_manifest fields fixed from_dict from_json from_toml
        distributions mechanisms metric one_report parts problems proved_metric report_bits searches
        share stated tabled to_dict to_json to_toml
    """,
    "SurveySpec": "comments from_dict metric to_dict together",
    "Tally": """
        add counts covariances layout_for load of planner profile quantiles save store survey
        with_prior
    """,
    "Fit": "attributes quantiles shares survey values",
    "Pool": "tallies",
    "Waves": "labels per same_people tallies times",
    "Estimate": """
        between bounds bracket covariance display estimable hidden jump layout lie made method
        one origin paces possible pvalue question reach reports scale scaled survey
        target to_text variance
    """,
    "EstimateTable": """
        groupings label labels pvalues shared_notes single stderr to_csv to_html to_text values
    """,
    "Integer": EXTRA_OF_EVERY_ATTRIBUTE + "step values",
    "Continuous": EXTRA_OF_EVERY_ATTRIBUTE + "bin_edges extent step widths",
    "Continuous, rounded": EXTRA_OF_EVERY_ATTRIBUTE + "extent grid step",
    "Ordinal": EXTRA_OF_EVERY_ATTRIBUTE + "field_name step values",
    "Categorical": EXTRA_OF_EVERY_ATTRIBUTE + "field_name values",
    "Weight": EXTRA_OF_EVERY_ATTRIBUTE + "ends extent max_epsilon workload",
}
"""Other public members, which are to become private."""
MISSING_MEMBERS = {
    "Fit": """
        contributions correlation covariance fit_distribution goodness_of_fit_test
        independence_test linear_regression std top_k trend_test variance
    """,
    "Pool": """
        cdf contributions correlation covariance goodness_of_fit_test independence_test
        linear_regression quantile std top_k trend_test variance workload
    """,
    "Waves": """
        cdf contributions correlation covariance fit_distribution goodness_of_fit_test
        histogram independence_test linear_regression n std top_k trend_test variance workload
    """,
    "Continuous, rounded": "rounding",
}
"""Members that the interface defines and that do not exist yet."""


@functools.cache
def instances():
    """Return an object of each class whose members are compared."""
    attributes = {
        "Integer": Integer(0, 3, epsilon=1, per=1),
        "Continuous": Continuous(0, 1, bins=2, epsilon=1, per=1),
        "Continuous, rounded": Continuous(0, 1, points=3, epsilon=1, per=1, rounding="stochastic"),
        "Ordinal": Ordinal(["low", "high"], epsilon=1),
        "Categorical": Categorical(["a", "b"], epsilon=1),
        "Weight": Weight(0, 1),
    }
    spec = SurveySpec({"a": attributes["Integer"], "c": attributes["Categorical"]})
    survey = Survey.design(spec)
    responses = {"a": [0, 1, 2, 3] * 5, "c": ["a", "b"] * 10}
    tally, other = (
        survey.tally(survey.randomize(responses, randomness=Randomness.seeded(seed)))
        for seed in (1, 2)
    )
    return {
        "Survey": survey,
        "SurveySpec": spec,
        "Tally": tally,
        "Fit": tally.fit_distribution(["c"]),
        "Pool": pool([tally, other]),
        "Waves": waves([tally, other]),
        "Estimate": tally.count("a >= 2"),
        "EstimateTable": tally.count(by="c"),
        **attributes,
    }


def members(name):
    """Return the public members of an object, those of its class and its own."""
    return {member for member in dir(instances()[name]) if not member.startswith("_")}


def test_public_names_are_those_of_the_interface():
    assert set(metricldp.__all__) == NAMES | EXTRA_NAMES
    assert len(metricldp.__all__) == len(set(metricldp.__all__))
    assert not NAMES & EXTRA_NAMES
    assert set(dir(metricldp)) == set(metricldp.__all__)


def test_every_public_name_imports():
    for name in metricldp.__all__:
        assert getattr(metricldp, name) is not None
    namespace = {}
    exec("from metricldp import *", namespace)
    assert set(metricldp.__all__) <= set(namespace)
    with pytest.raises(AttributeError, match="'metricldp' has no attribute 'Ledger'"):
        _ = metricldp.Ledger


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(NAMES))
def test_every_public_name_imports_first(name):
    """In a fresh interpreter, where a circular import would show."""
    subprocess.run([sys.executable, "-c", f"from metricldp import {name}"], check=True)


LAZY = ("numpy", "scipy", "pyarrow", "numba", "pandas", "polars", "matplotlib", "typer")


def imported_by(statement):
    """Return which large libraries a fresh interpreter has imported after a statement."""
    program = f"{statement}\nimport sys\nprint(*(name for name in {LAZY} if name in sys.modules))"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stdout.split()


def test_importing_the_package_imports_no_large_library():
    assert imported_by("import metricldp") == []
    assert imported_by("import metricldp; metricldp.__all__, dir(metricldp)") == []


def test_an_imported_library_is_noticed():
    """The negative control of the test above."""
    assert imported_by("import metricldp; metricldp.Integer") == ["numpy"]


@pytest.mark.parametrize("name", MEMBERS)
def test_public_members_are_those_of_the_interface(name):
    extra = members(name) - MEMBERS[name]
    assert extra == set(EXTRA_MEMBERS.get(name, "").split())


@pytest.mark.parametrize("name", MEMBERS)
def test_members_of_the_interface_exist(name):
    missing = MEMBERS[name] - members(name)
    assert missing == set(MISSING_MEMBERS.get(name, "").split())


def test_tables_name_known_classes():
    assert set(MEMBERS) == set(instances())
    assert set(EXTRA_MEMBERS) <= set(MEMBERS)
    assert set(MISSING_MEMBERS) <= set(MEMBERS)
