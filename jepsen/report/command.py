"""`python -m jepsen report`: draws the page again from the files of a run or suite."""

import sys
from pathlib import Path

import click

from jepsen.report.page_request import INDEX, write_page
from raftlog.errors import InvalidArgument


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument(
    "folders", nargs=-1, required=True, type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="FOLDER…"
)
def report(folders: tuple[Path, ...]) -> None:
    """Write index.html into folders of runs and suites.

    Exit code 0, or 2 when a folder holds neither or a page could not be drawn.
    """
    failed = False
    for folder in folders:
        try:
            problem = write_page(folder)
        except (InvalidArgument, OSError) as error:
            problem = str(error)
        except Exception as error:  # noqa: BLE001 - files that hold something else fail in any way
            problem = f"the page of {folder} could not be drawn: {error!r}"
        failed = failed or problem is not None
        click.echo(problem or str(folder / INDEX), err=problem is not None)
    sys.exit(2 if failed else 0)
