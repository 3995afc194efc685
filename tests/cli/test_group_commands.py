"""`raftlog group` and `topic trim` against a scripted broker."""

import json
from typing import Any

import pytest

from tests.cli.scripted_broker import ScriptedBroker

GROUPS = "/v3/clusters/-/consumer-groups"
GROUP = {
    "consumer_group_id": "billing",
    "is_simple": False,
    "partition_assignor": "range",
    "state": "PREPARING_REBALANCE",
    "generation": 7,
    "coordinator": {"related": "http://h/v3/clusters/c/brokers/2"},
}
SIMPLE = GROUP | {"consumer_group_id": "old", "is_simple": True, "partition_assignor": "", "state": "EMPTY"}
CONSUMER = {
    "consumer_id": "c-1",
    "instance_id": None,
    "client_id": "app",
    "client_host": "10.0.0.1",
    "partitions": [{"topic_name": "orders", "partition_id": 0}],
}
LAG = {
    "topic_name": "orders",
    "partition_id": 0,
    "consumer_id": "c-1",
    "instance_id": None,
    "client_id": "app",
    "current_offset": 5,
    "log_end_offset": 12,
    "lag": 7,
}
UNREAD = LAG | {"partition_id": 1, "consumer_id": "", "client_id": "", "current_offset": -1, "lag": 1_200}
NOT_LED = UNREAD | {"partition_id": 2, "log_end_offset": -1, "lag": -1}
RESET = {"topic": "orders", "partition": 0, "before": 9, "after": 5, "clamped": False}
CLAMPED = {"topic": "orders", "partition": 1, "before": None, "after": 3, "clamped": True}


@pytest.fixture
def groups(scripted: ScriptedBroker) -> ScriptedBroker:
    scripted.answers[GROUPS] = (200, {"data": [GROUP, SIMPLE]})
    scripted.answers[f"{GROUPS}/billing"] = (200, GROUP)
    scripted.answers[f"{GROUPS}/billing/consumers"] = (200, {"data": [CONSUMER]})
    scripted.answers[f"{GROUPS}/billing/lags"] = (200, {"data": [LAG, UNREAD, NOT_LED]})
    return scripted


def test_groups_are_listed(groups: ScriptedBroker, ask: Any) -> None:
    _, billing, old = ask("group", "list").out.splitlines()
    assert billing.split() == ["billing", "preparing", "rebalance", "range", "2"]
    assert old.split() == ["old", "offsets", "only", "-", "2"]
    first = json.loads(ask("group", "list", "--json").out)[0]
    assert (first["group"], first["state"], first["generation"], first["coordinator"]) == (
        "billing",
        "PREPARING_REBALANCE",
        7,
        2,
    )


def test_a_group_is_described(groups: ScriptedBroker, ask: Any) -> None:
    out = ask("group", "describe", "billing").out
    for text in (
        "preparing rebalance",
        "1,207 records behind in 3 partitions, lag of 1 of them is unknown",
        "10.0.0.1",
    ):
        assert text in out
    rows = [line.split() for line in out.splitlines()]
    assert ["orders/0", "5", "12", "7", "c-1"] in rows
    assert ["orders/1", "-", "12", "1200", "-"] in rows
    assert ["orders/2", "-", "-", "-", "-"] in rows
    printed = json.loads(ask("group", "describe", "billing", "--json").out)
    assert printed["members"][0]["partitions"] == [{"topic": "orders", "partition": 0}]
    assert (printed["total_lag"], printed["partitions"][2]["lag"]) == (1_207, None)


def test_control_characters_and_markup_in_names_are_printed_literally(groups: ScriptedBroker, ask: Any) -> None:
    name = "a[/]b\x1b[31m"
    groups.answers[f"{GROUPS}/billing/consumers"] = (200, {"data": [CONSUMER | {"client_id": name}]})
    groups.answers[GROUPS] = (200, {"data": [GROUP | {"consumer_group_id": "[red]"}]})
    assert "a[/]b\\x1b[31m" in ask("group", "describe", "billing").out
    assert "[red]" in ask("group", "list").out


def test_the_lag_of_a_group_is_shown(groups: ScriptedBroker, ask: Any) -> None:
    assert "1,207 records behind" in ask("group", "lag", "billing").out
    printed = json.loads(ask("group", "lag", "billing", "--json").out)
    assert (printed["group"], printed["total_lag"], len(printed["partitions"])) == ("billing", 1_207, 3)


def test_an_unknown_group_is_reported(scripted: ScriptedBroker, ask: Any) -> None:
    error = {"error_code": 40405, "message": "there is no group 'x'", "outcome": "failed"}
    scripted.answers[f"{GROUPS}/x"] = scripted.answers[f"DELETE {GROUPS}/x"] = (404, error)
    for done in (ask("group", "describe", "x", expect=1), ask("group", "delete", "x", "--yes", expect=1)):
        assert "no group 'x'; `raftlog group list` shows" in done.err


@pytest.mark.parametrize(
    ("text", "to"),
    [
        ("earliest", "earliest"),
        ("latest", "latest"),
        ("@1700000000000", {"timestamp": 1_700_000_000_000}),
        ("@2026-01-31T12:00:00+00:00", {"timestamp": 1_769_860_800_000}),
        ("+5", {"shift": 5}),
        ("-5", {"shift": -5}),
        ("5", {"offset": 5}),
    ],
)
def test_reset_targets_are_sent_as_json(scripted: ScriptedBroker, ask: Any, text: str, to: Any) -> None:
    scripted.answers["POST /groups/g/offsets/reset"] = (200, {"offsets": [RESET], "dry_run": False})
    ask("group", "reset-offsets", "g", "--to", text, "--yes")
    assert scripted.ordered == [("POST /groups/g/offsets/reset", {"to": to, "dry_run": False})]


def test_a_reset_is_shown_before_it_is_executed(scripted: ScriptedBroker, ask: Any, run: Any) -> None:
    scripted.answers["POST /groups/g/offsets/reset"] = (200, {"offsets": [RESET, CLAMPED], "dry_run": True})
    reset = ("group", "reset-offsets", "g", "--to", "-4", "--topic", "orders:0,1", "--topic", "t")
    out = ask(*reset, "--dry-run").out
    assert ["orders/0", "9", "5"] in [line.split() for line in out.splitlines()]
    assert any(line.split()[:4] == ["orders/1", "-", "3", "outside"] for line in out.splitlines())
    assert "g would continue at the new offsets of 2 partitions; nothing was changed" in out
    wanted = {
        "to": {"shift": -4},
        "topics": ["t"],
        "partitions": [{"topic": "orders", "partition": 0}, {"topic": "orders", "partition": 1}],
    }
    assert [body for _, body in scripted.ordered] == [wanted | {"dry_run": True}]
    del scripted.ordered[:]
    at = ("--bootstrap", scripted.address)
    assert b"nothing was changed" in run(*reset, *at, stdin=b"n\n", expect=1).stderr
    assert b"--yes" in run(*reset, *at, expect=2).stderr
    assert [body["dry_run"] for _, body in scripted.ordered] == [True, True]
    run(*reset, *at, stdin=b"y\n")
    assert [body["dry_run"] for _, body in scripted.ordered] == [True, True, True, False]


def test_invalid_reset_targets_are_refused(ask: Any) -> None:
    for text in ("5x", "+", "@yesterday", "", "--5"):
        assert "earliest, latest" in ask("group", "reset-offsets", "g", "--to", text, expect=2).err
    for text in (":1", "t:", "t:x", "t:1,"):
        done = ask("group", "reset-offsets", "g", "--to", "1", "--topic", text, expect=2)
        assert "orders:0,2" in done.err
    assert "--dry-run" in ask("group", "reset-offsets", "g", "--to", "1", "--json", expect=2).err


def test_a_group_with_members_is_not_reset(scripted: ScriptedBroker, ask: Any) -> None:
    error = {"error_code": 40908, "message": "group g has 2 members", "outcome": "failed"}
    scripted.answers["POST /groups/g/offsets/reset"] = (409, error)
    done = ask("group", "reset-offsets", "g", "--to", "earliest", "--yes", expect=1)
    assert "2 members; `raftlog group describe` shows the members" in done.err


def test_a_group_is_deleted(scripted: ScriptedBroker, ask: Any) -> None:
    scripted.answers["DELETE /groups/g/offsets"] = (200, {})
    scripted.answers[f"DELETE {GROUPS}/g"] = (200, {})
    assert "committed offsets of g in orders" in ask("group", "delete-offsets", "g", "orders", "--yes").out
    assert ask("group", "delete", "g", "--yes").out == "deleted g\n"
    assert [name for name, _ in scripted.ordered] == ["DELETE /groups/g/offsets?topic=orders", f"DELETE {GROUPS}/g"]


@pytest.fixture
def orders(scripted: ScriptedBroker) -> ScriptedBroker:
    """Let the scripted broker answer requests about topic `orders` with two partitions."""
    replicas = {"leader": 1, "replicas": []}
    scripted.answers["/topics/orders"] = (
        200,
        {"name": "orders", "configs": {}, "partitions": [{"partition": number, **replicas} for number in (0, 1)]},
    )
    for number, first, end in ((0, 2, 10), (1, 0, 7)):
        path = f"/topics/orders/partitions/{number}"
        scripted.answers[f"{path}/offsets"] = (200, {"beginning_offset": first, "end_offset": end})
        scripted.answers[f"DELETE {path}/records"] = (200, {"log_start_offset": 6})
    return scripted


def test_a_topic_is_trimmed(orders: ScriptedBroker, ask: Any) -> None:
    out = ask("topic", "trim", "orders", "--before", "6", "--all", "--yes").out
    assert out == "orders/0 begins at 6, 4 records fewer\norders/1 begins at 6, 6 records fewer\n"
    printed = json.loads(ask("topic", "trim", "orders", "--before", "6", "-p", "1", "--yes", "--json").out)
    assert printed == {"topic": "orders", "partitions": [{"partition": 1, "log_start_offset": 6, "deleted": 6}]}
    del orders.ordered[:]
    ask("topic", "trim", "orders", "--before", "-1", "--all", "--yes")
    ask("topic", "trim", "orders", "--before", "end", "-p", "0", "--yes")
    assert ask("topic", "trim", "orders", "--before", "1", "-p", "0").out == "orders/0 begins at 2 already\n"
    path = "DELETE /topics/orders/partitions"
    assert [name for name, _ in orders.ordered] == [
        f"{path}/0/records?before=9",
        f"{path}/1/records?before=6",
        f"{path}/0/records?before=10",
    ], "nothing lies before the first offset"


def test_invalid_trims_are_refused(orders: ScriptedBroker, ask: Any) -> None:
    assert "--all" in ask("topic", "trim", "orders", "--before", "1", expect=2).err
    assert "--all" in ask("topic", "trim", "orders", "--before", "1", "-p", "0", "--all", expect=2).err
    assert "start" in ask("topic", "trim", "orders", "--before", "start", "--all", expect=2).err
    assert "--yes" in ask("topic", "trim", "orders", "--before", "1", "--all", "--json", expect=2).err
    done = ask("topic", "trim", "orders", "--before", "9", "--all", "--yes", expect=1)
    assert "orders/1: offset 9 is out of range" in done.err
    assert "nothing was deleted" in done.err
    assert orders.ordered == []


def test_a_partial_trim_is_reported(orders: ScriptedBroker, ask: Any) -> None:
    error = {"error_code": 50401, "message": "no answer in time", "outcome": "unknown"}
    orders.answers["DELETE /topics/orders/partitions/1/records"] = (504, error)
    done = ask("topic", "trim", "orders", "--before", "6", "--all", "--yes", expect=3)
    assert "orders/1: no answer in time; before that, orders/0 begins at 6" in done.err


def test_a_trim_needs_confirmation(orders: ScriptedBroker, run: Any) -> None:
    trim = ("topic", "trim", "orders", "--before", "6", "--all", "--bootstrap", orders.address)
    done = run(*trim, stdin=b"n\n", expect=1)
    assert b"Delete 10 records of orders, for good?" in done.stderr
    assert orders.ordered == []
