"""Pictures, the only files that import matplotlib: of answers, of metrics, of pages."""

from metricldp.app.plots.answers import cdf, histogram
from metricldp.app.plots.metrics import metric_graph
from metricldp.app.plots.pages import draw
from metricldp.app.plots.shared import check_picture

__all__ = ["cdf", "check_picture", "draw", "histogram", "metric_graph"]
