"""Pictures, the only files that import matplotlib: of answers, metrics, comparisons and risks.

Every function returns a figure of matplotlib, and writes it into a file if one is named.
"""

from metricldp.answers.answer_table import Answers, Grid, Histogram
from metricldp.answers.differences import Groups
from metricldp.answers.pictures import Draw
from metricldp.answers.quantiles import Cdf
from metricldp.answers.waves import WaveAnswers
from metricldp.app.plots.answers import cdf, histogram
from metricldp.app.plots.curves import tradeoff
from metricldp.app.plots.grids import heatmap
from metricldp.app.plots.intervals import groups, intervals, trend, waves
from metricldp.app.plots.metrics import metric_graph
from metricldp.app.plots.shared import check_picture

PICTURES: dict[type, Draw] = {
    Answers: intervals,
    Cdf: cdf,
    Grid: heatmap,
    Groups: groups,
    Histogram: histogram,
    WaveAnswers: waves,
}
"""What `.plot()` of each kind of answers draws."""

__all__ = [
    "PICTURES",
    "cdf",
    "check_picture",
    "groups",
    "heatmap",
    "histogram",
    "intervals",
    "metric_graph",
    "tradeoff",
    "trend",
    "waves",
]
