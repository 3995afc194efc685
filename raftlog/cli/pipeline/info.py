"""`raftlog pipeline info`: requirements of Spark, and raftlog as a file for `spark-submit --py-files`."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version

import click
import orjson

from raftlog.cli.options import json_option, option
from raftlog.cli.outcome import CommandFailed
from raftlog.cli.tables import show_properties
from raftlog.pipeline.errors import MissingRequirement
from raftlog.pipeline.py_files import write_py_files
from raftlog.pipeline.requirements import check_java, check_packages


@click.command()
@option("--py-files", "zip_path", metavar="FILE.zip", help="Write raftlog's code to this file, for executors.")
@json_option("Print the result as JSON.")
def info(zip_path: str | None, as_json: bool) -> None:
    """Show the versions that Spark uses here. Exit code 1 when a requirement is missing."""
    missing: list[str] = []
    with _collect_missing(missing):
        check_packages()
    java = None
    with _collect_missing(missing):
        java = check_java()
    found = {
        "raftlog": _find_version("raftlog"),
        "pyspark": _find_version("pyspark"),
        "pyarrow": _find_version("pyarrow"),
        "java": java,
        "python": sys.executable,
        "py_files": write_py_files(zip_path) if zip_path is not None else None,
        "missing": missing,
    }
    if as_json:
        click.echo(orjson.dumps(found))
    else:
        show_properties(*((name.replace("_", "-"), value) for name, value in found.items() if name != "missing"))
    if missing:
        raise CommandFailed("; ".join(missing))


@contextmanager
def _collect_missing(missing: list[str]) -> Iterator[None]:
    """Catch a missing requirement in the block, and add its message to `missing`."""
    try:
        yield
    except MissingRequirement as error:
        missing.append(str(error))


def _find_version(package: str) -> str | None:
    """Return the version of an installed package; None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
