"""A real Prometheus that scrapes a real broker: it loads the generated files, and answers every query of them.

No package of Grafana is available, so the dashboards are only queried, not displayed."""

import http.client
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest
import yaml

from raftlog.cli.monitoring.alerts import ALERTS
from raftlog.cli.monitoring.dashboards import DASHBOARDS
from raftlog.cli.monitoring.panels import Panel
from raftlog.testing import BrokerProcess
from tests.base_ports import reserve_base_port
from tests.cli.conftest import COMMAND, build_environment
from tests.system_packages import prometheus_program
from tests.waiting import block_until

WITHOUT_DATA = {
    "Certificates expire in": "no listener has TLS",
    "Event loop held": "no step may have held the loop",
    "Delayed by quotas": "no client has a quota",
    "Lag of replicas, in entries": "there is one broker",
    "Messages sent by kind": "there is one broker",
    "Bytes that wait to be sent": "there is one broker",
    "Gossip members by state": "there is one broker",
    "Gossip suspicions": "there is one broker",
    "Gossip refutations": "there is one broker",
}
"""Panels without data in a cluster of one broker."""
RATES = re.compile(r"\[(\$__rate_interval|5m:15s)\]")


class Prometheus(NamedTuple):
    """Address of a running Prometheus."""

    port: int

    def ask(self, path: str) -> Any:
        """Return the data of an answer of Prometheus' API. Raises `ConnectionError` while it starts."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("GET", f"/api/v1/{path}")
            response = connection.getresponse()
            if response.status == http.HTTPStatus.SERVICE_UNAVAILABLE:
                raise ConnectionError(response.read())
            answer = json.loads(response.read())
        finally:
            connection.close()
        assert answer["status"] == "success", answer
        return answer["data"]

    def query(self, expression: str) -> list[Any]:
        """Return the series of an expression."""
        return list(self.ask(f"query?query={quote(expression)}")["result"])


def wait_for(condition: Any, process: "subprocess.Popen[bytes]", log: Path) -> None:
    """Wait until the condition holds, and Prometheus runs."""

    def has_ended_or_is_so() -> bool:
        try:
            return process.poll() is not None or bool(condition())
        except OSError:
            return False  # it does not listen yet

    block_until(has_ended_or_is_so, log.read_text)
    assert process.poll() is None, log.read_text()


def generate(*args: str) -> str:
    command = [*COMMAND, "generate", *args]
    return subprocess.run(command, env=build_environment(), capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """Start Prometheus with the generated files; it has scraped the broker and evaluated the alerts."""
    directory = tmp_path_factory.mktemp("prometheus")
    with BrokerProcess(directory / "data", "--kafka", "127.0.0.1:0") as broker, reserve_base_port() as port:
        broker.start()
        produce_and_commit(broker.address)
        generate("dashboards", "--dir", str(directory))
        scraping = generate("prometheus-config", "--interval", "1s", "--bootstrap", broker.address)
        config = {
            "global": {"evaluation_interval": "1s"},
            "rule_files": ["raftlog-alerts.yml"],
            **yaml.safe_load(scraping),
        }
        (directory / "prometheus.yml").write_text(yaml.safe_dump(config))
        subprocess.run([prometheus_program("promtool"), "check", "config", directory / "prometheus.yml"], check=True)
        log = directory / "log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [
                    prometheus_program("prometheus"),
                    f"--config.file={directory / 'prometheus.yml'}",
                    f"--storage.tsdb.path={directory / 'storage'}",
                    f"--web.listen-address=127.0.0.1:{port}",
                ],
                stdout=output,
                stderr=output,
            )
        try:
            running = Prometheus(port)
            wait_for(lambda: running.query("count_over_time(raftlog_ready[1m]) >= 5"), process, log)
            wait_for(lambda: all(rule["health"] != "unknown" for rule in list_rules(running)), process, log)
            yield running
        finally:
            process.terminate()
            process.wait()


def produce_and_commit(address: str) -> None:
    for command in (
        ("topic", "create", "orders"),
        ("produce", "orders"),
        ("consume", "orders", "--group", "billing", "--count", "5"),
    ):
        flags = (*command, "--bootstrap", address)
        subprocess.run([*COMMAND, *flags], input=b"a\n" * 10, env=build_environment(), check=True, capture_output=True)


def list_rules(prometheus: Prometheus) -> list[Any]:
    return [rule for group in prometheus.ask("rules")["groups"] for rule in group["rules"]]


def test_every_alert_is_evaluated_and_none_fires_in_a_healthy_cluster(prometheus: Prometheus) -> None:
    rules = list_rules(prometheus)
    assert [rule["name"] for rule in rules] == [alert.name for alert in ALERTS]
    assert [(rule["name"], rule["lastError"]) for rule in rules if rule["health"] != "ok"] == []
    firing = {rule["name"] for rule in rules if rule["alerts"]}
    assert firing <= {"RaftlogDiskFills"}, "the disk of the test's machine may be nearly full"


@pytest.mark.parametrize(
    "panel",
    [pytest.param(panel, id=f"{board.name}-{panel.title}") for board in DASHBOARDS for panel in board.panels],
)
def test_every_panel_has_data(prometheus: Prometheus, panel: Panel) -> None:
    expression = RATES.sub(lambda match: "[1m:1s]" if ":" in match[1] else "[1m]", panel.expression)
    series = prometheus.query(re.sub(r"\$(topic|group|instance)", ".*", expression))
    assert series or panel.title in WITHOUT_DATA
