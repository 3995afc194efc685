"""`python -m jepsen`: faults on real processes. The simulation is `python -m jepsen.simulation`."""

import click

from jepsen.report.command import report
from jepsen.runner.command import test
from jepsen.runner.suite import suite


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Inject faults into real processes; see also `python -m jepsen.simulation` and `python -m jepsen.planted`."""


main.add_command(test)
main.add_command(suite)
main.add_command(report)

if __name__ == "__main__":
    main()
