"""The page of a survey and the analysts' API, over whatever a collector has."""

from metricldp.app.web.site import pages

__all__ = ["pages"]
