"""`raftlog generate`: files for programs that watch a cluster, made from the tables in `monitoring`.

Prometheus' files are YAML, or JSON on demand, which Prometheus reads as well; Grafana imports JSON alone.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

import click
import orjson
import yaml

from raftlog.cli.lazy import LazyGroup, Verb
from raftlog.cli.monitoring import ALERTS, JOB, PANELS, Alert, Panel
from raftlog.cli.options import bootstrap_option, json_option, option
from raftlog.cli.outcome import CommandFailed
from raftlog.client import BrokerClient
from raftlog.client.addresses import HTTPS, BrokerAddresses, host_of

VERBS: Final = {
    "prometheus-config": Verb("generate:prometheus_config", "Print a scrape configuration for Prometheus."),
    "prometheus-rules": Verb("generate:prometheus_rules", "Print alerts for Prometheus."),
    "grafana-dashboard": Verb("generate:grafana_dashboard", "Print a dashboard for Grafana."),
}
_LINE_WIDTH: Final = 1_000
"""Line width of YAML, with which expressions stay on one line."""
_as_json = json_option("Print JSON in place of YAML.")
_COLUMNS, _WIDTH, _HEIGHT = 3, 8, 7
"""Layout of the dashboard's panels; its grid has 24 columns."""


@click.group(cls=LazyGroup, verbs=VERBS)
def generate() -> None:
    """Print configuration for Prometheus and Grafana."""


@click.command("prometheus-config")
@option("--job-name", default=JOB, help="Name of the job, which becomes the label `job`.")
@option("--interval", default="15s", help="Interval between scrapes.")
@_as_json
@bootstrap_option
def prometheus_config(job_name: str, interval: str, as_json: bool, bootstrap: BrokerAddresses) -> None:
    """Print a scrape configuration with all brokers of the cluster; print it anew when brokers are added or removed."""
    addresses = asyncio.run(_fetch_addresses(bootstrap))
    targets = [host_of(address) for address in addresses]
    job: dict[str, Any] = {"job_name": job_name, "scrape_interval": interval, "static_configs": [{"targets": targets}]}
    if any(address.startswith(HTTPS) for address in addresses):
        files = zip(("ca_file", "cert_file", "key_file"), bootstrap.tls, strict=True)
        job |= {"scheme": "https", "tls_config": {name: path for name, path in files if path}}
    _print_document({"scrape_configs": [job]}, as_json=as_json)


async def _fetch_addresses(bootstrap: Sequence[str]) -> list[str]:
    """Return the HTTP addresses of all brokers; raises `CommandFailed` if no broker has one."""
    async with BrokerClient(bootstrap) as client:
        brokers = await client.brokers()
    if not any(broker.http for broker in brokers):
        raise CommandFailed("no broker of the cluster advertises an HTTP address")
    return [broker.http for broker in brokers if broker.http]


@click.command("prometheus-rules")
@option(
    "--job-name", default=JOB, help="Name of the Prometheus job that scrapes the brokers, as in `prometheus-config`."
)
@_as_json
def prometheus_rules(job_name: str, as_json: bool) -> None:
    """Print a file of alerts, for `rule_files` of Prometheus."""
    rules = [_make_rule(alert, job_name) for alert in ALERTS]
    _print_document({"groups": [{"name": "raftlog", "rules": rules}]}, as_json=as_json)


def _make_rule(alert: Alert, job_name: str) -> dict[str, Any]:
    """Return the Prometheus rule of an alert, for metrics of the job `job_name`."""
    of_job = f"job={orjson.dumps(job_name).decode()}"
    return {
        "alert": alert.name,
        "expr": alert.expression.replace(f'job="{JOB}"', of_job),
        "for": alert.lasts,
        "labels": {"severity": alert.severity},
        "annotations": {"summary": alert.summary},
    }


@click.command("grafana-dashboard")
@option("--title", default="raftlog", help="Title of the dashboard.")
def grafana_dashboard(title: str) -> None:
    """Print a dashboard to import into Grafana; it asks which Prometheus to use."""
    source = {"name": "source", "type": "datasource", "query": "prometheus", "label": "Prometheus"}
    _print_document(
        {
            "title": title,
            "uid": "raftlog",
            "schemaVersion": 39,
            "refresh": "30s",
            "time": {"from": "now-1h", "to": "now"},
            "templating": {"list": [source]},
            "panels": [_make_panel(number, panel) for number, panel in enumerate(PANELS)],
        },
        as_json=True,
    )


def _make_panel(number: int, panel: Panel) -> dict[str, Any]:
    """Return the Grafana panel with this number, from left to right and top to bottom."""
    source = {"type": "prometheus", "uid": "${source}"}
    row, column = divmod(number, _COLUMNS)
    return {
        "id": number + 1,
        "title": panel.title,
        "type": "timeseries",
        "datasource": source,
        "gridPos": {"x": column * _WIDTH, "y": row * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [{"refId": "A", "datasource": source, "expr": panel.expression, "legendFormat": panel.legend}],
    }


def _print_document(document: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        click.echo(orjson.dumps(document, option=orjson.OPT_INDENT_2))
    else:
        click.echo(yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=_LINE_WIDTH), nl=False)
