"""`raftlog cluster` and `topic describe` against a scripted broker."""

import json
from typing import Any

import msgspec
import pytest

from raftlog.cli import operator_verbs
from raftlog.cli.cluster import health as health_command
from raftlog.client import ClusterHealth
from tests.cli.scripted_broker import ScriptedBroker

HEALTHY = {
    "is_healthy": True,
    "unhealthy_reasons": [],
    "controller_id": 2,
    "all_nodes": [1, 2, 3],
    "nodes_down": [],
    "leaderless_partitions": [],
    "leaderless_count": 0,
    "under_replicated_partitions": [],
    "under_replicated_count": 0,
    "nodes_in_maintenance": [3],
    "nodes_draining": [],
    "reconfigurations_count": 7,
    "lagging_partitions": [],
    "lagging_count": 0,
    "electing_partitions": [],
    "electing_count": 0,
    "notes": [],
}
REASON = "node 3 does not answer"
UNHEALTHY = HEALTHY | {
    "is_healthy": False,
    "unhealthy_reasons": [REASON],
    "nodes_down": [3],
    "under_replicated_partitions": [f"orders/{number}" for number in range(12)],
    "under_replicated_count": 200,
}


def test_a_healthy_cluster_is_shown(ask: Any, scripted: ScriptedBroker) -> None:
    scripted.answers["/v1/cluster/health_overview"] = 200, HEALTHY
    text = ask("cluster", "health").out
    assert [line.split() for line in text.splitlines()][:3] == [
        ["healthy", "yes"],
        ["reasons", "-"],
        ["controller", "2"],
    ]
    shown = json.loads(ask("cluster", "health", "--json").out)
    assert shown == HEALTHY


def test_notes_of_a_healthy_cluster_are_shown(ask: Any, scripted: ScriptedBroker) -> None:
    note = "the nodes [3] do not serve Kafka"
    scripted.answers["/v1/cluster/health_overview"] = 200, HEALTHY | {"notes": [note]}
    assert ["notes", *note.split()] in [line.split() for line in ask("cluster", "health").out.splitlines()]


def test_an_unhealthy_cluster_returns_exit_code_1_with_reasons(ask: Any, scripted: ScriptedBroker) -> None:
    scripted.answers["/v1/cluster/health_overview"] = 200, UNHEALTHY
    done = ask("cluster", "health", expect=1)
    assert REASON in done.err
    text = done.out
    assert "200: orders/0, " in text
    assert "orders/9, …" in text
    assert json.loads(ask("cluster", "health", "--json", expect=1).out) == UNHEALTHY


def test_no_controller_is_shown_as_none(ask: Any, scripted: ScriptedBroker) -> None:
    scripted.answers["/v1/cluster/health_overview"] = 200, UNHEALTHY | {"controller_id": -1}
    shown = json.loads(ask("cluster", "health", "--json", expect=1).out)
    assert shown["controller_id"] is None


def test_watching_prints_every_change(spawn: Any, scripted: ScriptedBroker) -> None:
    scripted.answers["/v1/cluster/health_overview"] = 200, HEALTHY
    process = spawn("cluster", "health", "--watch", "--json", "--bootstrap", scripted.address)
    assert json.loads(process.stdout.readline())["is_healthy"] is True
    scripted.answers["/v1/cluster/health_overview"] = 200, UNHEALTHY
    assert json.loads(process.stdout.readline())["unhealthy_reasons"] == [REASON]
    process.send_signal(2)
    assert process.wait(10) == 0
    assert process.stderr.read() == b""


async def test_watching_prints_no_lag_between_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    electing = {"electing_partitions": ["orders/0"], "electing_count": 1}
    lagging = HEALTHY | {"lagging_partitions": ["orders/0"], "lagging_count": 1} | electing
    looks = iter([msgspec.convert(each, ClusterHealth) for each in (HEALTHY, lagging, HEALTHY, lagging | UNHEALTHY)])

    class Client:
        async def health(self) -> ClusterHealth:
            return next(looks)

    monkeypatch.setattr(operator_verbs, "POLL_SECONDS", 0)
    shown: list[ClusterHealth] = []

    def has_ended(found: ClusterHealth) -> bool:
        return not found.is_healthy

    await operator_verbs.watch(Client().health, shown.append, has_ended, steady=health_command._remove_changing_parts)
    assert [found.is_healthy for found in shown] == [True, False]


def test_cluster_info_is_shown(ask: Any, scripted: ScriptedBroker) -> None:
    scripted.answers |= {
        "/v1/cluster/health_overview": (200, HEALTHY),
        "/v1/cluster/uuid": (200, {"cluster_uuid": "c0ffee"}),
        "/v1/brokers": (
            200,
            [
                {
                    "node_id": 2,
                    "is_alive": False,
                    "membership_status": "active",
                    "maintenance_status": {"draining": True},
                    "disk_uuid": "d15c",
                    "version": None,
                },
                {
                    "node_id": 1,
                    "is_alive": True,
                    "membership_status": "active",
                    "version": "0.1.0",
                    "internal_rpc_address": "127.0.0.1",
                    "internal_rpc_port": 8084,
                    "http_address": "127.0.0.1:8082",
                    "host": "rack-1",
                },
            ],
        ),
    }
    lines = ask("cluster", "info").out.splitlines()
    assert lines[0] == "cluster c0ffee, controller 2"
    assert lines[3].split() == ["1", "yes", "active", "127.0.0.1:8082", "127.0.0.1:8084", "rack-1", "0.1.0", "-"]
    assert lines[4].split() == ["2", "no", "maintenance", "-", "-", "-", "-", "d15c"]
    shown = json.loads(ask("cluster", "info", "--json").out)
    assert (shown["cluster_id"], shown["controller_id"]) == ("c0ffee", 2)
    assert [broker["rpc"] for broker in shown["brokers"]] == ["127.0.0.1:8084", None]


def replica_row(broker: int, *, leader: bool = False, in_sync: bool = True) -> dict[str, Any]:
    return {"broker": broker, "leader": leader, "in_sync": in_sync}


def test_a_leaderless_partition_is_shown(ask: Any, scripted: ScriptedBroker) -> None:
    scripted.answers["/topics/orders"] = (
        200,
        {
            "name": "orders",
            "configs": {"retention.ms": "-1", "segment.bytes": "1073741824"},
            "partitions": [
                {
                    "partition": 0,
                    "leader": 2,
                    "replicas": [replica_row(1), replica_row(2, leader=True), replica_row(3, in_sync=False)],
                    "high_watermark": 7,
                },
                {"partition": 1, "leader": -1, "replicas": [replica_row(1, in_sync=False)], "problem": "no leader"},
            ],
        },
    )
    rows = [{"name": "retention.ms", "is_default": False}, {"name": "segment.bytes", "is_default": True}]
    scripted.answers["/v3/clusters/-/topics/orders/configs"] = 200, {"data": rows}
    scripted.answers["/topics/orders/partitions/0/offsets"] = 200, {"beginning_offset": 3, "end_offset": 7}
    lines = ask("topic", "describe", "orders").out.splitlines()
    assert lines[0] == "orders: 2 partitions, replication factor 3"
    assert lines[3].split() == ["0", "2", "1,", "2,", "3", "1,", "2", "3", "7", "4"]
    assert lines[4].split() == ["1", "-", "1", "-", "-", "-", "-", "no", "leader"]
    assert [line.split() for line in lines[6:]] == [
        ["setting", "value", "from"],
        ["retention.ms", "-1", "topic"],
        ["segment.bytes", "1073741824", "default"],
    ]
    shown = json.loads(ask("topic", "describe", "orders", "--json").out)
    assert shown["overrides"] == ["retention.ms"]
    first, second = shown["partitions"]
    assert first == {
        "partition": 0,
        "leader": 2,
        "replicas": [1, 2, 3],
        "in_sync": [1, 2],
        "high_watermark": 7,
        "problem": None,
        "beginning_offset": 3,
        "end_offset": 7,
    }
    assert (second["leader"], second["problem"], second["end_offset"]) == (None, "no leader", None)
    assert "/topics/orders/partitions/1/offsets" not in scripted.asked


def test_unavailable_offsets_do_not_hide_other_columns(ask: Any, scripted: ScriptedBroker) -> None:
    partitions = [{"partition": 0, "leader": 1, "replicas": [replica_row(1, leader=True)], "high_watermark": 5}]
    scripted.answers["/topics/t"] = 200, {"name": "t", "configs": {}, "partitions": partitions}
    refusal = {"error_code": 50302, "message": "the leader has just changed", "outcome": "failed"}
    scripted.answers["/topics/t/partitions/0/offsets"] = 503, refusal
    scripted.answers["/v3/clusters/-/topics/t/configs"] = 200, {"data": []}
    lines = ask("topic", "describe", "t").out.splitlines()
    assert lines[3].split() == ["0", "1", "1", "1", "-", "5", "-"]
