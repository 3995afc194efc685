"""`raftlog config`: the settings with which `raftlog serve` would start a broker."""

import click
import orjson
from click.core import ParameterSource

from raftlog.cli.options import broker_option, json_option
from raftlog.cli.serve.plan import ServeSettings, read_serve_settings
from raftlog.cli.tables import Columns, format_count, show, table_of

_SOURCES = {
    ParameterSource.ENVIRONMENT: "variable",
    ParameterSource.DEFAULT_MAP: "file",
    ParameterSource.COMMANDLINE: "flag",
}
"""Sources of settings as they are printed; settings from other sources are defaults."""


@click.group()
def config() -> None:
    """Check the configuration of a broker."""


@config.command()
@click.argument("file", required=False, type=click.Path())
@broker_option("--config", "named", type=click.Path(), metavar="FILE", help="The same as FILE.")
@json_option("Print the settings as JSON.")
def check(file: str | None, named: str | None, as_json: bool) -> None:
    """Check FILE and the RAFTLOG_ variables as `raftlog serve --config FILE` would use them.

    Certificates and secrets that they name are read; no broker is started. Shows the settings that are not the
    defaults, and where each is set; a variable has precedence over the file."""
    source = click.get_current_context().get_parameter_source("named")
    if file is not None and source is ParameterSource.COMMANDLINE and named != file:
        raise click.UsageError("give one file, as FILE or with --config")
    found = read_serve_settings(file if file is not None else named)
    rows = [(key, value, _SOURCES[source]) for key, (value, source) in found.given.items() if source in _SOURCES]
    if as_json:
        settings = {key: {"value": value, "source": source} for key, value, source in rows}
        click.echo(orjson.dumps({"file": found.path, "settings": settings}, default=str))
        return
    if rows:
        show(table_of(rows, _COLUMNS))
    click.echo(_summary(found, len(rows)))


def _summary(found: ServeSettings, count: int) -> str:
    """Return the sentence that the settings are valid; `count` is their number."""
    where = found.path or "the environment"
    return f"{where} is valid: {format_count(count, 'setting')}, data in {found.broker.data_dir}"


_COLUMNS: Columns[tuple[str, object, str]] = {
    "setting": lambda row: row[0],
    "value": lambda row: str(row[1]),
    "set by": lambda row: row[2],
}
