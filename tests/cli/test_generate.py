"""Generated files for Prometheus and Grafana: they can be parsed, and name existing metrics."""

import json
import re
from typing import Any

import pytest
import yaml

from raftlog.cli.monitoring import ALERTS, CONSUMER_LAG, PANELS, Alert
from raftlog.testing import BrokerProcess
from tests.layouts import DOCS, items_after

METRICS = (DOCS / "METRICS.md").read_text(encoding="utf-8")
_SUFFIXES = ("_bucket", "_count", "_sum")


def list_known_metrics() -> set[str]:
    """Return the metrics of docs/METRICS.md, which another test compares with a scrape."""
    return {name for head, _ in items_after("metrics", METRICS) for name in re.findall(r"`([^`]+)`", head)}


@pytest.mark.parametrize("each", [*ALERTS, *PANELS], ids=lambda each: each[0])
def test_an_expression_names_existing_metrics(each: Any) -> None:
    named = re.findall(r"\b(?:raftlog|process)_\w+", each.expression)
    known = list_known_metrics()
    plain = {next((name.removesuffix(end) for end in _SUFFIXES if name.endswith(end)), name) for name in named}
    assert plain <= known
    assert named or each.expression == 'up{job="raftlog"} == 0'


def test_the_alerts_match_the_document() -> None:
    described = METRICS.split("## Alerts\n")[1].split("\n## ")[0]
    shown = {alert.expression.replace(CONSUMER_LAG, "LAG") for alert in ALERTS}
    assert [each for each in shown if f"`{each}`" not in described] == []
    assert f"`{CONSUMER_LAG}`" in described


OF_SCRAPES = {"instance", "job"}
OF_METRICS = {
    "raftlog_http_responses_total": {"status"},
    "raftlog_tls_certificate_expiry_seconds": {"listener"},
}
"""Labels that a metric has by itself, of those that alerts name without `by`."""


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_a_summary_names_labels_that_its_expression_keeps(alert: Alert) -> None:
    kept = OF_SCRAPES.union(*(labels for metric, labels in OF_METRICS.items() if metric in alert.expression))
    by = re.search(r" by \(([^)]*)\)", alert.expression)
    if by is not None:
        kept = set(by[1].split(", "))
    named = set(re.findall(r"\$labels\.(\w+)", alert.summary))
    assert named
    assert named <= kept


def test_consumers_and_topics_have_panels_and_consumers_an_alert() -> None:
    legends = {panel.legend for panel in PANELS if CONSUMER_LAG in panel.expression}
    assert legends == {"{{group}}: {{topic}}"}
    rates = [panel for panel in PANELS if "rate(" in panel.expression and panel.legend == "{{topic}}"]
    assert [panel.title for panel in rates] == ["Records in by topic"]
    assert [alert.name for alert in ALERTS if CONSUMER_LAG in alert.expression] == ["RaftlogConsumerLagGrows"]


def test_the_configuration_names_all_brokers(run: Any, broker: BrokerProcess) -> None:
    command = ("generate", "prometheus-config", "--interval", "30s", "--bootstrap", broker.address)
    said = yaml.safe_load(run(*command).stdout)
    assert json.loads(run(*command, "--json").stdout) == said
    (job,) = said["scrape_configs"]
    assert (job["job_name"], job["scrape_interval"]) == ("raftlog", "30s")
    assert job["static_configs"] == [{"targets": [broker.address]}]


def test_the_alert_for_a_down_broker_uses_its_job(run: Any) -> None:
    def find_down_alert(*flags: str) -> str:
        (group,) = yaml.safe_load(run("generate", "prometheus-rules", *flags).stdout)["groups"]
        return next(rule["expr"] for rule in group["rules"] if rule["alert"] == "RaftlogBrokerDown")

    assert find_down_alert() == 'up{job="raftlog"} == 0'
    assert find_down_alert("--job-name", "my logs") == 'up{job="my logs"} == 0'


def test_rules_and_dashboard_can_be_parsed(run: Any) -> None:
    rules = run("generate", "prometheus-rules").stdout
    assert rules.startswith(b"groups:\n- name: raftlog\n  rules:\n  - alert: ")
    assert json.loads(run("generate", "prometheus-rules", "--json").stdout) == yaml.safe_load(rules)
    (group,) = yaml.safe_load(rules)["groups"]
    assert [rule["alert"] for rule in group["rules"]] == [alert.name for alert in ALERTS]
    dashboard = json.loads(run("generate", "grafana-dashboard", "--title", "ours").stdout)
    assert dashboard["title"] == "ours"
    assert [panel["title"] for panel in dashboard["panels"]] == [panel.title for panel in PANELS]
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in dashboard["panels"]]
    assert len(set(places)) == len(places)
    assert all(x + panel["gridPos"]["w"] <= 24 for (x, _), panel in zip(places, dashboard["panels"], strict=True))
