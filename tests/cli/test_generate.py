"""Generated files for Prometheus and Grafana: they can be parsed, and name existing metrics and pages."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from raftlog.api.http.metrics.declared import DECLARED
from raftlog.cli.monitoring.alerts import ALERTS, Alert
from raftlog.cli.monitoring.dashboards import DASHBOARDS, Dashboard, make_dashboard
from raftlog.cli.monitoring.expressions import CONSUMER_LAG
from raftlog.cli.monitoring.panels import Panel
from raftlog.testing import BrokerProcess
from tests.documents.pages import list_anchors
from tests.layouts import DOCS

_SUFFIXES = ("_bucket", "_count", "_sum")
PANELS = [pytest.param(panel, id=f"{board.name}-{panel.title}") for board in DASHBOARDS for panel in board.panels]
LABELS = {each.full_name: set(each.labels) for each in DECLARED.values()}
PROCESS = {"process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds", "process_max_fds"}
OF_SCRAPES = {"instance", "job"}


def find_metrics(expression: str) -> set[str]:
    named = re.findall(r"\b(?:raftlog|process)_\w+", expression)
    return {next((name.removesuffix(end) for end in _SUFFIXES if name.endswith(end)), name) for name in named}


def find_kept_labels(expression: str) -> set[str]:
    """Return the labels of an expression's result: those of the first `by`, or all of its first metric."""
    by = re.search(r" by \(([^)]*)\)", expression)
    if by is not None:
        return set(by[1].split(", ")) - {"le"}
    first = min(find_metrics(expression), key=expression.find, default="up")
    return OF_SCRAPES | LABELS.get(first, set())


@pytest.mark.parametrize("each", [*ALERTS, *PANELS])
def test_an_expression_names_existing_metrics(each: Alert | Panel) -> None:
    named = find_metrics(each.expression)
    assert named <= LABELS.keys() | PROCESS
    assert named or each.expression == 'up{job="raftlog"} == 0'


@pytest.mark.parametrize("panel", PANELS)
def test_a_legend_names_labels_that_its_expression_keeps(panel: Panel) -> None:
    named = set(re.findall(r"{{(\w+)}}", panel.legend))
    assert named
    assert named <= find_kept_labels(panel.expression.removeprefix("topk(10, "))


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_a_summary_names_labels_that_its_expression_keeps(alert: Alert) -> None:
    named = set(re.findall(r"\$labels\.(\w+)", alert.summary))
    assert named
    assert named <= find_kept_labels(alert.expression)


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_a_runbook_is_a_heading_of_the_documents(alert: Alert) -> None:
    name, _, anchor = alert.runbook.partition("#")
    assert anchor in list_anchors((DOCS / name).read_text(encoding="utf-8"))


@pytest.mark.parametrize("board", DASHBOARDS, ids=lambda board: board.name)
def test_a_dashboard_has_what_grafana_requires(board: Dashboard) -> None:
    """Structure only: no package of Grafana is available to load it."""
    made = make_dashboard(board)
    assert (made["uid"], made["tags"]) == (f"raftlog-{board.name}", ["raftlog"])
    names = [variable["name"] for variable in made["templating"]["list"]]
    assert names[0] == "source"
    queries = " ".join(panel["targets"][0]["expr"] for panel in made["panels"])
    assert set(re.findall(r"\$(\w+)", queries)) - {"__rate_interval"} == set(names[1:])
    for variable in board.variables:
        assert variable.name in LABELS[variable.metric] | OF_SCRAPES
    assert len({panel["id"] for panel in made["panels"]}) == len(made["panels"])
    assert len({panel["title"] for panel in made["panels"]}) == len(made["panels"])
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in made["panels"]]
    assert len(set(places)) == len(places)
    assert all(x + panel["gridPos"]["w"] <= 24 for (x, _), panel in zip(places, made["panels"], strict=True))


def test_consumers_have_panels_and_an_alert() -> None:
    with_lag = [board.name for board in DASHBOARDS for panel in board.panels if CONSUMER_LAG in panel.expression]
    assert with_lag == ["overview"]
    assert [alert.name for alert in ALERTS if CONSUMER_LAG in alert.expression] == ["RaftlogConsumerLagGrows"]


def test_the_configuration_names_all_brokers(run: Any, broker: BrokerProcess) -> None:
    command = ("generate", "prometheus-config", "--interval", "30s", "--bootstrap", broker.address)
    said = yaml.safe_load(run(*command).stdout)
    assert json.loads(run(*command, "--json").stdout) == said
    (job,) = said["scrape_configs"]
    assert (job["job_name"], job["scrape_interval"]) == ("raftlog", "30s")
    assert job["static_configs"] == [{"targets": [broker.address]}]


def test_the_configuration_has_the_login_of_the_command(run: Any, broker: BrokerProcess, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("secret\n")
    login = ("--user", "prometheus", "--password-file", str(tmp_path / "password"))
    printed = run("generate", "prometheus-config", "--bootstrap", broker.address, *login).stdout
    (job,) = yaml.safe_load(printed)["scrape_configs"]
    assert job["basic_auth"] == {"username": "prometheus", "password_file": str(tmp_path / "password")}
    assert b"secret" not in printed


@pytest.mark.parametrize("interval", ["15", "0s", "1s1m", "", "fast"])
def test_an_interval_that_prometheus_refuses_is_an_error(run: Any, interval: str) -> None:
    done = run("generate", "prometheus-config", "--interval", interval, "--bootstrap", "127.0.0.1:1", expect=2)
    assert b"is no duration of Prometheus" in done.stderr


def test_the_alert_for_a_down_broker_uses_its_job(run: Any) -> None:
    def find_down_alert(*flags: str) -> str:
        (group,) = yaml.safe_load(run("generate", "prometheus-rules", *flags).stdout)["groups"]
        return next(rule["expr"] for rule in group["rules"] if rule["alert"] == "RaftlogBrokerDown")

    assert find_down_alert() == 'up{job="raftlog"} == 0'
    assert find_down_alert("--job-name", "my logs") == 'up{job="my logs"} == 0'


def test_rules_link_to_their_runbooks(run: Any) -> None:
    rules = run("generate", "prometheus-rules", "--docs-url", "https://logs.test/docs/").stdout
    assert rules.startswith(b"groups:\n- name: raftlog\n  rules:\n  - alert: ")
    (group,) = yaml.safe_load(rules)["groups"]
    assert [rule["alert"] for rule in group["rules"]] == [alert.name for alert in ALERTS]
    assert [rule["annotations"]["runbook_url"] for rule in group["rules"]] == [
        f"https://logs.test/docs/{alert.runbook}" for alert in ALERTS
    ]


def test_dashboards_and_alerts_are_written_to_a_directory(run: Any, tmp_path: Path) -> None:
    target = tmp_path / "new" / "boards"
    printed = run("generate", "dashboards", "--dir", str(target)).stdout.decode().split()
    assert sorted(printed) == sorted(str(path) for path in target.iterdir())
    for board in DASHBOARDS:
        assert json.loads((target / f"raftlog-{board.name}.json").read_bytes()) == make_dashboard(board)
    assert (target / "raftlog-alerts.yml").read_bytes() == run("generate", "prometheus-rules").stdout
    only = tmp_path / "only"
    run("generate", "dashboards", "--dir", str(only), "--only", "raft")
    assert [path.name for path in only.iterdir()] == ["raftlog-raft.json"]


def test_a_directory_that_cannot_be_written_is_an_error(run: Any, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = run("generate", "dashboards", "--dir", str(tmp_path / "file" / "boards"), expect=1)
    assert done.stderr.decode() == f"error: {tmp_path / 'file' / 'boards'}: Not a directory\n"
