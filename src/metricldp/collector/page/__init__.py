"""The page of a survey and the analysts' HTTP API, over the reports of a collector."""

from metricldp.collector.page.app import pages

__all__ = ["pages"]
