"""`python -m metricldp` is the command line."""

from metricldp.app.cli import main

main()
