"""Charts with matplotlib: of tables, metrics, plans and comparisons of mechanisms.

Functions that draw one chart take `ax=None` and return the Axes; those with several panels return a
figure. `save` writes either. Modules are imported when a name is first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from metricldp.plot.charts import draw_table as draw_table
    from metricldp.plot.comparisons import draw_comparison as draw_comparison
    from metricldp.plot.curves import draw_errors as draw_errors
    from metricldp.plot.metrics import draw_metric as draw_metric
    from metricldp.plot.plans import draw_plan as draw_plan
    from metricldp.plot.style import check_picture as check_picture
    from metricldp.plot.style import save as save

_MODULES = {
    "draw_table": "charts",
    "draw_comparison": "comparisons",
    "draw_errors": "curves",
    "draw_metric": "metrics",
    "draw_plan": "plans",
    "check_picture": "style",
    "save": "style",
}

__all__ = ["check_picture", "draw_comparison", "draw_errors", "draw_metric", "draw_plan"]
__all__ += ["draw_table", "save"]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'metricldp.plot' has no attribute {name!r}")
    return getattr(importlib.import_module(f"metricldp.plot.{_MODULES[name]}"), name)
