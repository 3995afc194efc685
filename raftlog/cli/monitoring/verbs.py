"""Verbs of `raftlog generate`: files for programs that watch a cluster.

Prometheus' files are YAML, or JSON on demand, which Prometheus reads as well; Grafana imports JSON alone.
"""

import asyncio
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click
import orjson
import yaml

from raftlog.cli.lazy import LazyGroup, Verb
from raftlog.cli.monitoring.alerts import make_rules
from raftlog.cli.monitoring.dashboards import DASHBOARDS, make_dashboard
from raftlog.cli.monitoring.expressions import JOB
from raftlog.cli.options import bootstrap_option, json_option, option
from raftlog.cli.outcome import CommandFailed
from raftlog.client import BrokerClient
from raftlog.client.addresses import HTTPS, BrokerAddresses, host_of

VERBS: Final = {
    "prometheus-config": Verb("monitoring.verbs:prometheus_config", "Print a scrape configuration for Prometheus."),
    "prometheus-rules": Verb("monitoring.verbs:prometheus_rules", "Print alerts for Prometheus."),
    "dashboards": Verb("monitoring.verbs:dashboards", "Write dashboards for Grafana, and alerts for Prometheus."),
}
_DURATION: Final = r"(?=.)(\d+y)?(\d+w)?(\d+d)?(\d+h)?(\d+m)?(\d+s)?(\d+ms)?"
_LINE_WIDTH: Final = 1_000
"""Line width of YAML, with which expressions stay on one line."""
_as_json = json_option("Print JSON in place of YAML.")
_of_job = option(
    "--job-name", default=JOB, help="Name of the Prometheus job that scrapes the brokers, as in `prometheus-config`."
)
_of_docs = option("--docs-url", default="docs", help="URL of the directory docs/, with which runbook links begin.")
ALERTS_FILE: Final = "raftlog-alerts.yml"


def _check_duration(_context: click.Context, _parameter: click.Parameter, text: str) -> str:
    """Return a duration in Prometheus' notation unchanged. Raises `BadParameter`."""
    if re.fullmatch(_DURATION, text) is None or not re.search("[1-9]", text):
        raise click.BadParameter(f"{text!r} is no duration of Prometheus, such as 15s or 1m30s")
    return text


@click.group(cls=LazyGroup, verbs=VERBS)
def generate() -> None:
    """Generate configuration for Prometheus and Grafana."""


@click.command("prometheus-config")
@option("--job-name", default=JOB, help="Name of the job, which becomes the label `job`.")
@option("--interval", default="15s", callback=_check_duration, help="Interval between scrapes, such as 30s or 1m30s.")
@_as_json
@bootstrap_option
def prometheus_config(job_name: str, interval: str, as_json: bool, bootstrap: BrokerAddresses) -> None:
    """Print a scrape configuration with all brokers of the cluster; print it anew when brokers are added or removed.

    Prometheus connects with the certificates and the login of this command, from the same paths."""
    addresses = asyncio.run(_fetch_addresses(bootstrap))
    targets = [host_of(address) for address in addresses]
    job: dict[str, Any] = {"job_name": job_name, "scrape_interval": interval, "static_configs": [{"targets": targets}]}
    if any(address.startswith(HTTPS) for address in addresses):
        files = zip(("ca_file", "cert_file", "key_file"), bootstrap.tls, strict=True)
        job |= {"scheme": "https", "tls_config": {name: os.path.abspath(path) for name, path in files if path}}
    if bootstrap.user is not None and bootstrap.password_file is not None:
        job["basic_auth"] = {"username": bootstrap.user, "password_file": os.path.abspath(bootstrap.password_file)}
    _print_document({"scrape_configs": [job]}, as_json=as_json)


async def _fetch_addresses(bootstrap: Sequence[str]) -> list[str]:
    """Return the HTTP addresses of all brokers; raises `CommandFailed` if no broker has one."""
    async with BrokerClient(bootstrap) as client:
        brokers = await client.brokers()
    if not any(broker.http for broker in brokers):
        raise CommandFailed("no broker of the cluster advertises an HTTP address")
    return [broker.http for broker in brokers if broker.http]


@click.command("prometheus-rules")
@_of_job
@_of_docs
@_as_json
def prometheus_rules(job_name: str, docs_url: str, as_json: bool) -> None:
    """Print a file of alerts, for `rule_files` of Prometheus."""
    _print_document(make_rules(job_name, docs_url), as_json=as_json)


@click.command("dashboards")
@option("--dir", "directory", required=True, type=click.Path(file_okay=False, path_type=Path), help="Target directory.")
@option("--only", type=click.Choice([board.name for board in DASHBOARDS]), help="Write this dashboard alone.")
@_of_job
@_of_docs
def dashboards(directory: Path, only: str | None, job_name: str, docs_url: str) -> None:
    """Write dashboards for Grafana, and the alerts that `prometheus-rules` prints; replaces files of these names."""
    files = {
        f"raftlog-{board.name}.json": _format(make_dashboard(board), as_json=True)
        for board in DASHBOARDS
        if only in (None, board.name)
    }
    if only is None:
        files[ALERTS_FILE] = _format(make_rules(job_name, docs_url), as_json=False)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (directory / name).write_bytes(text)
            click.echo(directory / name)
    except OSError as error:
        raise CommandFailed(f"{error.filename}: {error.strerror}") from None


def _print_document(document: Mapping[str, Any], *, as_json: bool) -> None:
    """Print a document as YAML or JSON."""
    click.echo(_format(document, as_json=as_json), nl=False)


def _format(document: Mapping[str, Any], *, as_json: bool) -> bytes:
    """Return a document as YAML or JSON."""
    if as_json:
        return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    text: str = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=_LINE_WIDTH)
    return text.encode()
