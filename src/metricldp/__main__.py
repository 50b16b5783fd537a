"""`python -m metricldp` is the command line."""

from metricldp.cli import main

main()
