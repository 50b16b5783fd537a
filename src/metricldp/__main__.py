"""`metricldp`, or `python -m metricldp`: the command line, or one line that says what it needs."""

import sys

from metricldp.basics.errors import MissingDependencyError
from metricldp.basics.optional import loaded


def main() -> None:
    try:
        loaded("typer")
    except MissingDependencyError as wrong:
        print(f"metricldp: {wrong}", file=sys.stderr)
        sys.exit(2)
    from metricldp.cli.main import main as run

    run()


if __name__ == "__main__":
    main()
