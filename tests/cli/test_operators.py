"""`raftlog broker`, `partition` and `cluster` verbs against a scripted broker."""

import asyncio
import json
import re
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from raftlog.cli import operator_verbs
from raftlog.cli.outcome import CommandFailed
from raftlog.errors import Unavailable
from tests.cli.scripted_broker import AnswerSequence, ScriptedBroker

REPLICA = {"in_sync": True, "entries_behind": 0, "bytes_behind": 0, "catch_up_bytes_per_s": 0, "problem": None}
MAINTENANCE = {
    "draining": True,
    "finished": False,
    "errors": False,
    "partitions": 5,
    "eligible": 4,
    "transferring": 2,
    "failed": 0,
    "reasons": ["node 3 lags behind"],
}
NO_MAINTENANCE = {name: False if isinstance(value, bool) else 0 for name, value in MAINTENANCE.items()} | {
    "reasons": []
}
BROKER = {
    "node_id": 1,
    "is_alive": True,
    "membership_status": "active",
    "maintenance_status": NO_MAINTENANCE,
    "http_address": "127.0.0.1:8082",
    "kafka_addresses": {},
    "internal_rpc_address": "127.0.0.1",
    "internal_rpc_port": 8084,
    "host": "h1",
    "rack": None,
    "version": "0.2.0",
    "disk_uuid": "d15c",
    "disk_space": [
        {"path": "/data", "free": 3_000_000_000, "total": 4_000_000_000, "reserve": 0, "filling_per_s": None}
    ],
    "boot_epoch": 7,
    "uptime_s": 90.5,
    "feature_levels": {"min": 2, "max": 3},
    "row_version": 12,
    "problem": None,
}
DOWN = BROKER | {
    "node_id": 3,
    "is_alive": False,
    "membership_status": "draining",
    "maintenance_status": MAINTENANCE,
    "version": None,
    "disk_space": [],
    "uptime_s": None,
    "problem": "no answer",
}
MOVE = {
    "ns": "kafka",
    "topic": "orders",
    "partition": 0,
    "bytes_left_to_move": 700_000,
    "bytes_moved": 300_000,
    "partition_size": 1_000_000,
    "bytes_per_s": 50_000,
    "reconfiguration_policy": "full_local_retention",
    "reason": None,
}
MOVING_TO = MOVE | {"moving_to": {"node_id": 4, "core": 0}}
MOVE |= {
    "previous_replicas": [{"node_id": 1}, {"node_id": 3}],
    "current_replicas": [{"node_id": 1}, {"node_id": 4}],
}
LEAVING = {
    "finished": False,
    "replicas_left": 2,
    "bytes_left": 700_000,
    "allocation_failures": ["orders/1"],
    "partitions": [MOVING_TO],
    "reason": "no host is left for orders/1",
}
GONE = LEAVING | {
    "finished": True,
    "replicas_left": 0,
    "bytes_left": 0,
    "allocation_failures": [],
    "partitions": [],
    "reason": None,
}
UNKNOWN = 404, {"error_code": 40406, "message": "there is no broker 9", "outcome": "failed"}


@pytest.fixture(autouse=True)
def _poll_quickly(scripted: ScriptedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operator_verbs, "POLL_SECONDS", 0.01)
    scripted.answers["/v1/brokers"] = 200, []


def split_cells(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


# brokers


def test_brokers_are_listed(ask: Any, scripted: ScriptedBroker) -> None:
    scripted.answers["/v1/brokers"] = 200, [DOWN, BROKER]
    header, first, second = split_cells(ask("broker", "list").out)
    assert header[:3] == ["node", "alive", "status"]
    assert first[:4] == ["1", "yes", "active", "127.0.0.1:8082"]
    assert "3.0 GB of 4.0 GB 90 s" in " ".join(first)
    assert " ".join(second).startswith("3 no draining, maintenance")
    assert "Kafka" not in header, "no broker serves it"
    assert json.loads(ask("broker", "list", "--json").out) == [BROKER, DOWN]


def test_kafka_listeners_are_listed(ask: Any, scripted: ScriptedBroker) -> None:
    two = BROKER | {"kafka_addresses": {"in": "a:1", "out": "b:2"}}
    scripted.answers["/v1/brokers"] = 200, [BROKER | {"kafka_addresses": {"kafka": "c:3"}}, two, BROKER]
    header, *rows = split_cells(ask("broker", "list").out)
    assert header[-1] == "Kafka"
    assert [row[-1] for row in rows] == ["c:3", "out=b:2", "-"]
    assert rows[1][-2] == "in=a:1,"


def test_a_broker_is_shown(ask: Any, scripted: ScriptedBroker) -> None:
    scripted.answers["/v1/brokers/1"] = 200, BROKER
    shown = dict(line.strip().split("  ", 1) for line in ask("broker", "show", "1").out.splitlines())
    stripped = {name: value.strip() for name, value in shown.items()}
    assert (stripped["disk"], stripped["starts"], stripped["rack"]) == ("d15c", "7", "-")
    assert json.loads(ask("broker", "show", "1", "--json").out) == BROKER


def test_an_unknown_broker_names_the_next_command(ask: Any, scripted: ScriptedBroker) -> None:
    scripted.answers["/v1/brokers/9"] = UNKNOWN
    assert ask("broker", "show", "9", expect=1).err == (
        "error: there is no broker 9; `raftlog broker list` shows the brokers\n"
    )


def test_a_decommission_is_started_and_names_the_status_command(ask: Any, scripted: ScriptedBroker) -> None:
    scripted.answers["PUT /v1/brokers/3/decommission"] = 200, {"node_id": 3}
    scripted.answers["/v1/brokers/3/decommission"] = 200, LEAVING
    done = ask("broker", "decommission", "3")
    assert "2 replicas left; `raftlog broker decommission-status 3 --watch`" in done.out
    assert "no host is left for orders/1" in done.out
    assert scripted.ordered == [("PUT /v1/brokers/3/decommission", None)]


def test_a_decommission_can_be_waited_for(ask: Any, scripted: ScriptedBroker) -> None:
    scripted.answers["PUT /v1/brokers/3/decommission"] = 200, {"node_id": 3}
    scripted.answers["/v1/brokers/3/decommission"] = 200, AnswerSequence(LEAVING, LEAVING, GONE)
    assert "removed from the cluster" in ask("broker", "decommission", "3", "--wait").out
    scripted.answers["/v1/brokers/3/decommission"] = 200, AnswerSequence(LEAVING, LEAVING, GONE)
    lines = ask("broker", "decommission", "3", "--watch", "--json").out.splitlines()
    assert [json.loads(line) for line in lines] == [LEAVING, GONE]


def test_a_wait_that_times_out_reports_the_progress(ask: Any, scripted: ScriptedBroker) -> None:
    scripted.answers["PUT /v1/brokers/3/decommission"] = 200, {"node_id": 3}
    scripted.answers["/v1/brokers/3/decommission"] = 200, LEAVING
    done = ask("broker", "decommission", "3", "--wait", "--timeout", "0.03", expect=1)
    assert "2 replicas left, 700.0 kB left, 50.0 kB/s, no host is left for orders/1" in done.err
    assert "it continues, and `raftlog broker decommission-status 3` shows its progress" in done.err


async def test_an_interrupted_wait_reports_that_the_operation_continues(capsys: pytest.CaptureFixture[str]) -> None:
    async def read_progress() -> operator_verbs.WaitProgress:
        asked.set()
        return operator_verbs.WaitProgress(False, "2 replicas left")

    asked = asyncio.Event()
    waiting = asyncio.ensure_future(
        operator_verbs.wait(read_progress, "move of orders/0", 60, "raftlog partition moves")
    )
    await asked.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert (
        capsys.readouterr().err == "move of orders/0: it continues, and `raftlog partition moves` shows its progress\n"
    )


async def test_a_terminal_shows_a_progress_bar(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    steps = [operator_verbs.WaitProgress(False, "2 replicas left", 1, 3)] * 20 + [
        operator_verbs.WaitProgress(True, "", 3, 3)
    ]

    async def read_progress() -> operator_verbs.WaitProgress:
        return steps.pop(0)

    await operator_verbs.wait(read_progress, "move of orders/0", 60, "raftlog partition moves")
    done = capsys.readouterr()
    assert "2 replicas left" in done.err
    assert done.out == ""


async def test_without_a_terminal_a_wait_prints_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(operator_verbs, "POLL_SECONDS", 0.01)
    steps = [operator_verbs.WaitProgress(False, "2 replicas left", 1, 3)] * 5 + [
        operator_verbs.WaitProgress(True, "", 3, 3)
    ]

    async def read_progress() -> operator_verbs.WaitProgress:
        return steps.pop(0)

    await operator_verbs.wait(read_progress, "move of orders/0", 60, "raftlog partition moves")
    assert capsys.readouterr().err == "move of orders/0: waiting: 2 replicas left\n"


@pytest.mark.parametrize("columns", [40, 80, 120])
async def test_text_of_any_length_is_printed_completely_beside_the_bar(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], columns: int
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    reason = (
        "4 partitions have no place for a replica (orders/0 needs 3 hosts, and 2 are left): start brokers on other "
        "hosts, let brokers come back from maintenance, or recommission"
    )
    steps = [operator_verbs.WaitProgress(False, f"2 replicas left, 1.0 MB left, {reason}", 1, 3)] * 5
    steps.append(operator_verbs.WaitProgress(True, "", 3, 3))

    async def read_progress() -> operator_verbs.WaitProgress:
        return steps.pop(0)

    await operator_verbs.wait(read_progress, "decommission of node 3", 60, "raftlog broker decommission-status 3")
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", capsys.readouterr().err)
    lines = [line.strip() for line in shown.replace("\r", "\n").split("\n")]
    assert any(line.startswith("decommission of node 3") and "━" in line for line in lines)
    assert reason in " ".join(lines)


def test_the_progress_of_a_decommission_is_shown(ask: Any, scripted: ScriptedBroker) -> None:
    scripted.answers["/v1/brokers/3/decommission"] = 200, LEAVING
    text = ask("broker", "decommission-status", "3").out
    assert "no other broker can take 1 partition: orders/1" in text
    stuck = LEAVING["partitions"][0] | {"partition": 1, "moving_to": None, "reason": "needs 3 hosts, and 2 are left"}
    scripted.answers["/v1/brokers/3/decommission"] = 200, LEAVING | {"partitions": [*LEAVING["partitions"], stuck]}
    assert "no other broker can take" not in ask("broker", "decommission-status", "3").out, "the table says it"
    assert ["orders/0", "4", "700.0", "kB", "1.0", "MB", "50.0", "kB/s", "-"] in split_cells(text)
    scripted.answers["/v1/brokers/3/decommission"] = 200, AnswerSequence(LEAVING, GONE)
    assert ask("broker", "decommission-status", "3", "--watch").out.endswith("finished\n")


def test_an_accepted_operation_without_status_is_not_reported_as_failed(
    ask: Any, scripted: ScriptedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operator_verbs, "FIRST_STATUS_SECONDS", 0.02)
    away = 503, {"error_code": 50302, "message": "the controller has no leader", "outcome": "failed"}
    scripted.answers["PUT /v1/brokers/3/decommission"] = 200, {"node_id": 3}
    scripted.answers["PUT /v1/brokers/3/maintenance"] = 200, {"node_id": 3, "draining": True, "version": 4}
    scripted.answers["/v1/brokers/3/decommission"] = scripted.answers["/v1/brokers/3/maintenance"] = away
    for verb, ordered in (
        (("decommission",), "decommission of node 3 has begun"),
        (("maintenance", "enable"), "node 3 is in maintenance mode"),
    ):
        done = ask("broker", *verb, "3", expect=1)
        assert (
            f"{ordered}, but its progress is not available now (the controller has no leader); check it with `"
            in done.err
        )


async def test_a_wait_without_answers_reports_that_the_operation_continues() -> None:
    async def fail() -> operator_verbs.WaitProgress:
        raise Unavailable("the controller has no leader")

    with pytest.raises(CommandFailed, match="its progress is not available"):
        await operator_verbs.wait(fail, "decommission of node 3", 0.02, "raftlog broker decommission-status 3")


def test_a_broker_is_recommissioned(ask: Any, scripted: ScriptedBroker) -> None:
    scripted.answers["PUT /v1/brokers/3/recommission"] = 200, {"node_id": 3}
    assert json.loads(ask("broker", "recommission", "3", "--json").out) == {"node_id": 3}
    assert "node 3 stays" in ask("broker", "recommission", "3").out


def test_maintenance_is_switched_on_and_off(ask: Any, scripted: ScriptedBroker) -> None:
    scripted.answers["PUT /v1/brokers/3/maintenance"] = 200, {"node_id": 3, "draining": True, "version": 4}
    scripted.answers["DELETE /v1/brokers/3/maintenance"] = 200, {"node_id": 3, "draining": False, "version": 5}
    over = MAINTENANCE | {"finished": True, "partitions": 0, "eligible": 0, "reasons": []}
    scripted.answers["/v1/brokers/3/maintenance"] = (
        200,
        AnswerSequence(*({"node_id": 3, **each} for each in (MAINTENANCE, over))),
    )
    assert "still leads 5 partitions" in ask("broker", "maintenance", "enable", "3", "--expected-version", "3").out
    assert "leads no partitions" in ask("broker", "maintenance", "enable", "3", "--wait").out
    away = MAINTENANCE | {"node_id": 3, "partitions": 0, "eligible": 0, "reasons": ["node 3 does not answer"]}
    scripted.answers["/v1/brokers/3/maintenance"] = 200, away
    assert "maintenance mode, but node 3 does not answer; `raftlog" in ask("broker", "maintenance", "enable", "3").out
    assert json.loads(ask("broker", "maintenance", "disable", "3", "--json").out)["version"] == 5
    assert [each for each, _ in scripted.ordered] == [
        "PUT /v1/brokers/3/maintenance?expected_version=3",
        "PUT /v1/brokers/3/maintenance",
        "PUT /v1/brokers/3/maintenance",
        "DELETE /v1/brokers/3/maintenance",
    ]


def test_a_maintenance_that_another_request_ended_has_failed(ask: Any, scripted: ScriptedBroker) -> None:
    scripted.answers["PUT /v1/brokers/3/maintenance"] = 200, {"node_id": 3, "draining": True, "version": 4}
    ended = {"node_id": 3, "draining": False, "version": 5}
    scripted.answers["/v1/brokers/3/maintenance"] = 200, AnswerSequence({"node_id": 3, **MAINTENANCE}, ended)
    why = "error: node 3 is not in maintenance mode: another request has just ended it\n"
    assert ask("broker", "maintenance", "enable", "3", "--wait", expect=1).err.endswith(why)
    assert ask("broker", "maintenance", "enable", "3", expect=1).err == why


def test_brokers_in_maintenance_are_listed(ask: Any, scripted: ScriptedBroker) -> None:
    scripted.answers["/v1/brokers"] = 200, [BROKER, DOWN]
    _, first, second = split_cells(ask("broker", "maintenance", "status").out)
    assert first == ["1", "no", *["-"] * 6]
    assert second[:6] == ["3", "yes", "no", "5", "4", "2"]
    row = {"node_id": 3, **MAINTENANCE, "version": 4}
    scripted.answers["/v1/brokers/3/maintenance"] = 200, row
    assert json.loads(ask("broker", "maintenance", "status", "3", "--json").out) == [row]


# partitions


def test_partitions_are_listed_and_shown(ask: Any, scripted: ScriptedBroker) -> None:
    row = {"topic": "orders", "partition_id": 0, "leader_id": -1, "replicas": [{"node_id": 2}, {"node_id": 1}]}
    scripted.answers["/v1/cluster/partitions"] = 200, [row | {"version": 9}]
    assert split_cells(ask("partition", "list", "--topic", "orders").out)[1] == ["orders/0", "-", "2,", "1", "9"]
    scripted.answers["/v1/partitions/kafka/orders/0"] = 200, make_partition(2, in_sync=[2], behind=[1])
    shown = split_cells(ask("partition", "show", "orders/0").out)
    assert ["high", "watermark", "5"] in shown
    assert ["1", "no", "0", "2.0", "kB", "-", "-"] in shown


def make_partition(leader: int, *, in_sync: Sequence[int], behind: Sequence[int] = ()) -> dict[str, Any]:
    replicas = [{"node_id": node, **REPLICA} for node in in_sync]
    replicas += [{"node_id": node, **REPLICA, "in_sync": False, "bytes_behind": 2_000} for node in behind]
    offsets = {"leader_epoch": 1, "high_watermark": 5, "log_start_offset": 0, "version": 9, "problem": None}
    return {"topic": "orders", "partition_id": 0, "leader_id": leader, "replicas": replicas, **offsets}


REPLICAS = "POST /v1/partitions/kafka/orders/0/replicas"


def test_a_move_is_started(ask: Any, scripted: ScriptedBroker) -> None:
    scripted.answers[REPLICAS] = 200, {"version": 21}
    assert (
        "is moving to nodes 1, 4; `raftlog partition moves`" in ask("partition", "move", "orders/0", "--to", "1,4").out
    )
    ask("partition", "move", "orders/0", "--to", "4", "--expected-version", "21")
    assert scripted.ordered == [
        (REPLICAS, [{"node_id": 1, "core": 0}, {"node_id": 4, "core": 0}]),
        (REPLICAS + "?expected_version=21", [{"node_id": 4, "core": 0}]),
    ]


def test_a_move_can_be_waited_for(ask: Any, scripted: ScriptedBroker) -> None:
    scripted.answers[REPLICAS] = 200, {"version": 21}
    moves, partition = "/v1/partitions/reconfigurations", "/v1/partitions/kafka/orders/0"
    scripted.answers[moves] = 200, AnswerSequence([MOVE], [MOVE | {"partition": 1}])
    scripted.answers[partition] = 200, make_partition(1, in_sync=[1, 4])
    assert ask("partition", "move", "orders/0", "--to", "1,4", "--wait").out == "orders/0 is on nodes 1, 4\n"
    assert scripted.asked == [moves, moves, partition]
    scripted.answers["/v1/partitions/reconfigurations"] = 200, [MOVE | {"reason": "node 4 does not answer"}]
    done = ask("partition", "move", "orders/0", "--to", "1,4", "--wait", "--timeout", "0.02", expect=1)
    assert "700.0 kB left; node 4 does not answer" in done.err


def test_a_move_that_no_leader_reports_has_ended_once_a_new_replica_leads(ask: Any, scripted: ScriptedBroker) -> None:
    """The report lacks partitions whose leader just changes, or does not answer in time."""
    move = ("partition", "move", "orders/0", "--to", "1,4", "--wait", "--timeout")
    scripted.answers[REPLICAS] = 200, {"version": 21}
    scripted.answers["/v1/partitions/reconfigurations"] = 200, []
    states = [make_partition(leader, in_sync=[1], behind=[4]) for leader in (-1, 3, 1)]
    for state, why in zip(states, ("replicas leads", "replicas leads", "node 4 is not in sync"), strict=True):
        scripted.answers["/v1/partitions/kafka/orders/0"] = 200, state
        assert why in ask(*move, "0.02", expect=1).err
    scripted.answers["/v1/partitions/kafka/orders/0"] = 200, AnswerSequence(*states, make_partition(1, in_sync=[1, 4]))
    assert ask(*move, "60").out == "orders/0 is on nodes 1, 4\n"


def test_a_move_that_another_request_replaced_has_failed(ask: Any, scripted: ScriptedBroker) -> None:
    """A cancelled move leaves the report of moves like one that has ended."""
    move = ("partition", "move", "orders/0", "--to", "4,1", "--wait", "--timeout", "60")
    scripted.answers[REPLICAS] = 200, {"version": 21}
    moves, partition = "/v1/partitions/reconfigurations", "/v1/partitions/kafka/orders/0"
    stale, cancelled = (make_partition(1, in_sync=[1, 3]) | {"version": version} for version in (20, 22))
    scripted.answers[moves] = 200, AnswerSequence([MOVE | {"version": 21}], [])
    scripted.answers[partition] = 200, AnswerSequence(stale, cancelled)
    why = "error: move of orders/0: another request has replaced it, and assigned the partition to nodes "
    assert ask(*move, expect=1).err.endswith(f"{why}1, 3\n")
    elsewhere = MOVE | {"version": 22, "current_replicas": [{"node_id": 2}, {"node_id": 3}]}
    scripted.answers[moves] = 200, [elsewhere]
    assert ask(*move, expect=1).err == f"{why}2, 3\n"


def test_a_version_conflict_of_two_operators_is_reported(ask: Any, scripted: ScriptedBroker) -> None:
    scripted.answers[REPLICAS] = 409, {"error_code": 40904, "message": "it has version 22", "outcome": "failed"}
    done = ask("partition", "move", "orders/0", "--to", "4", "--expected-version", "21", expect=1)
    assert done.err == "error: it has version 22; repeat the command with the present version\n"


def test_an_unknown_outcome_returns_exit_code_3(ask: Any, scripted: ScriptedBroker) -> None:
    scripted.answers[REPLICAS] = 504, {"error_code": 50401, "message": "no answer in time", "outcome": "unknown"}
    assert "can be repeated" in ask("partition", "move", "orders/0", "--to", "4", expect=3).err


def test_moves_in_progress_are_listed(ask: Any, scripted: ScriptedBroker) -> None:
    scripted.answers["/v1/partitions/reconfigurations"] = 200, [MOVE]
    row = ["orders/0", "1,", "3", "1,", "4", "700.0", "kB", "1.0", "MB", "50.0", "kB/s", "-"]
    assert split_cells(ask("partition", "moves").out)[1] == row
    scripted.answers["/v1/partitions/reconfigurations"] = 200, []
    assert ask("partition", "moves").out == "no partition is moving\n"


def test_moves_are_cancelled(ask: Any, scripted: ScriptedBroker) -> None:
    scripted.answers["POST /v1/partitions/kafka/orders/0/cancel_reconfiguration"] = 200, {"version": 22}
    scripted.answers["POST /v1/cluster/cancel_reconfigurations"] = 200, [MOVE, MOVE]
    scripted.answers["POST /v1/brokers/3/cancel_partition_moves"] = 200, [MOVE]
    assert ask("partition", "cancel-move", "orders/0").out == "orders/0 stays on its present replicas\n"
    assert ask("partition", "cancel-move", "--all").out == "cancelled 2 moves\n"
    assert ask("partition", "cancel-move", "--node", "3").out == "cancelled 1 move\n"


def test_leadership_is_transferred(ask: Any, scripted: ScriptedBroker) -> None:
    scripted.answers["POST /v1/partitions/kafka/orders/0/transfer_leadership"] = 200, {"leader_id": 2}
    assert ask("partition", "transfer-leadership", "orders/0", "--to", "2").out == "node 2 is the leader of orders/0\n"
    ask("partition", "transfer-leadership", "orders/0")
    path = "POST /v1/partitions/kafka/orders/0/transfer_leadership"
    assert scripted.ordered == [(path + "?target=2", None), (path, None)]


# the cluster


def test_the_status_of_the_balancer_is_shown(ask: Any, scripted: ScriptedBroker) -> None:
    scripted.answers["/v1/cluster/partition_balancer/status"] = (
        200,
        {
            "status": "stalled",
            "mode": "continuous",
            "violations": {"unavailable_nodes": [3], "over_disk_limit_nodes": []},
            "seconds_since_last_tick": 1.5,
            "current_reassignments_count": 4,
            "reasons": ["no host is left"],
        },
    )
    shown = split_cells(ask("cluster", "balancer", "status").out)
    assert ["status", "stalled"] in shown
    assert ["brokers", "down", "3"] in shown
    scripted.answers["POST /v1/partitions/rebalance"] = 200, {"partitions_to_move": 7}
    assert "7 partitions will move" in ask("cluster", "balance").out
    scripted.answers["POST /v1/partitions/rebalance"] = 200, {"partitions_to_move": 0}
    assert ask("cluster", "balance").out == "no partition has to move\n"


@pytest.fixture
def settings(scripted: ScriptedBroker) -> ScriptedBroker:
    """Let the scripted broker answer requests about the cluster's settings."""
    described = {"description": "…", "allowed": "…", "nullable": False, "needs_restart": False}
    schema = {
        "balancer.mode": {"type": "string", "default": "continuous", **described},
        "balancer.moves.max": {"type": "integer", "default": 16, **described, "allowed": "1 to 10000"},
        "leaders.balance": {"type": "boolean", "default": True, **described},
    }
    values = {"balancer.mode": "off", "balancer.moves.max": 16, "leaders.balance": True}
    scripted.answers["/v1/cluster_config"] = 200, values
    scripted.answers["/v1/cluster_config/schema"] = 200, {"properties": schema}
    scripted.answers["PUT /v1/cluster_config"] = 200, {"config_version": 32}
    return scripted


def test_settings_are_shown(ask: Any, settings: ScriptedBroker) -> None:
    assert split_cells(ask("cluster", "config", "list").out)[1:] == [
        ["balancer.mode", "off", "continuous"],
        ["balancer.moves.max", "16", "16"],
        ["leaders.balance", "true", "true"],
    ]
    assert ask("cluster", "config", "get", "leaders.balance").out == "true\n"
    assert "config list" in ask("cluster", "config", "get", "none", expect=1).err
    assert "leaders.balance: boolean, …; default true\n    …\n" in ask("cluster", "config", "schema").out


def test_settings_are_set_with_their_types(ask: Any, settings: ScriptedBroker) -> None:
    given = ["balancer.mode=off", "balancer.moves.max=4", "leaders.balance=false", "none=1"]
    assert "version 32" in ask("cluster", "config", "set", *given).out
    ask("cluster", "config", "unset", "balancer.mode", "--expected-version", "32")
    ask("cluster", "config", "set", "balancer.mode=off", "--dry-run")
    typed = {"balancer.mode": "off", "balancer.moves.max": 4, "leaders.balance": False, "none": "1"}
    assert settings.ordered == [
        ("PUT /v1/cluster_config", {"upsert": typed, "remove": []}),
        ("PUT /v1/cluster_config?expected_version=32", {"upsert": {}, "remove": ["balancer.mode"]}),
        ("PUT /v1/cluster_config?dry_run=true", {"upsert": {"balancer.mode": "off"}, "remove": []}),
    ]


@pytest.mark.parametrize("given", ["balancer.moves.max=many", "balancer.moves.max=1.5", "leaders.balance=yes"])
def test_a_value_of_another_type_is_not_sent(ask: Any, settings: ScriptedBroker, given: str) -> None:
    assert "cannot be" in ask("cluster", "config", "set", given, expect=1).err


def test_the_error_for_a_too_large_number_has_the_range(ask: Any, settings: ScriptedBroker) -> None:
    said = ask("cluster", "config", "set", f"balancer.moves.max={'9' * 30}", expect=1).err
    assert said.rstrip().endswith("it is a whole number: 1 to 10000")
    assert not settings.ordered
    assert settings.ordered == []


def test_a_log_level_is_set_at_another_broker(ask: Any, scripted: ScriptedBroker) -> None:
    scripted.answers["PUT /v1/config/log_level/raftlog"] = 200, {"name": "raftlog", "level": "debug", "expires": 60}
    scripted.answers["/v1/brokers/1"] = 200, BROKER | {"http_address": scripted.address}
    done = ask("cluster", "log-level", "raftlog", "debug", "--expires", "60", "--node", "1")
    assert done.out == "raftlog logs level debug and above for 60 s\n"
    assert scripted.ordered == [("PUT /v1/config/log_level/raftlog?level=debug&expires=60", None)]


@pytest.mark.parametrize(
    "args",
    [
        ("broker", "show", "-1"),
        ("broker", "decommission"),
        ("broker", "decommission", "three"),
        ("partition", "move", "orders/0"),
        ("partition", "move", "orders/0", "--to", "1,,2"),
        ("partition", "move", "orders/0", "--to", "one"),
        ("partition", "move", "orders/0", "--to", "1,99999999999999999999"),
        ("partition", "move", "orders", "--to", "1"),
        ("partition", "cancel-move"),
        ("partition", "cancel-move", "orders/0", "--all"),
        ("cluster", "config", "set"),
        ("cluster", "config", "set", "balancer.mode"),
        ("cluster", "config", "set", "a=1", "a=2"),
        ("cluster", "log-level", "raftlog", "loud"),
    ],
)
def test_wrong_usage_sends_no_request(ask: Any, scripted: ScriptedBroker, args: tuple[str, ...]) -> None:
    assert "--help" in ask(*args, expect=2).err
    assert (scripted.asked, scripted.ordered) == ([], [])


def test_a_broker_of_an_older_release_is_reported(ask: Any, scripted: ScriptedBroker) -> None:
    gone = {"error_code": 404, "message": "there is nothing at /v1/cluster/partitions", "outcome": "failed"}
    scripted.answers["/v1/cluster/partitions"] = 404, gone
    assert "older release" in ask("partition", "list", expect=1).err


def test_feature_levels_without_a_controller_leader_are_shown(ask: Any, scripted: ScriptedBroker) -> None:
    scripted.answers["/v1/features"] = 503, {"error_code": 50302, "message": "no leader", "outcome": "failed"}
    done = ask("cluster", "upgrade", expect=1)
    assert "no leader" in done.err
