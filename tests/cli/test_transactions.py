"""`raftlog transaction` against a scripted broker."""

import json
from typing import Any

import pytest

from tests.cli.scripted_broker import ScriptedBroker

OPEN = {
    "transactional_id": "tx-1",
    "state": "Ongoing",
    "producer_id": 7,
    "producer_epoch": 2,
    "timeout_ms": 60_000,
    "started_ms": 1_700_000_000_000,
    "age_ms": 4_000,
    "coordinator_id": 3,
}
OLDER = OPEN | {"transactional_id": "tx-2", "age_ms": 9_000}
ENDED = OPEN | {"transactional_id": "tx-0", "state": "CompleteCommit", "started_ms": None, "age_ms": None}
DETAILS = OPEN | {"partitions": [{"topic": "orders", "partition": 1}], "groups": ["billing"]}


@pytest.fixture
def transactions(scripted: ScriptedBroker) -> ScriptedBroker:
    scripted.answers["/transactions"] = (200, {"transactions": [ENDED, OPEN, OLDER]})
    scripted.answers["/transactions/tx-1"] = (200, DETAILS)
    scripted.answers["POST /transactions/tx-1/abort"] = (200, None)
    return scripted


def test_transactions_are_listed(transactions: ScriptedBroker, ask: Any) -> None:
    _, *rows = ask("transaction", "list").out.splitlines()
    assert [row.split()[:4] for row in rows] == [
        ["tx-0", "CompleteCommit", "7", "2"],
        ["tx-1", "Ongoing", "7", "2"],
        ["tx-2", "Ongoing", "7", "2"],
    ]
    assert json.loads(ask("transaction", "list", "--open", "--json").out) == [OLDER, OPEN]


def test_a_transaction_is_described(transactions: ScriptedBroker, ask: Any) -> None:
    out = ask("transaction", "describe", "tx-1").out
    for text in ("Ongoing", "orders/1", "billing", "4000 ms"):
        assert text in out
    assert json.loads(ask("transaction", "describe", "tx-1", "--json").out) == DETAILS


def test_a_transaction_is_aborted(transactions: ScriptedBroker, ask: Any) -> None:
    assert ask("transaction", "abort", "tx-1").out == "tx-1 has no open transaction\n"
    assert transactions.ordered == [("POST /transactions/tx-1/abort", None)]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "'' is not possible as a transactional id"),
        ("..", "'..' is not possible as a transactional id"),
        ("\udcff", r"transactional id '\udcff' is not text that UTF-8 can encode"),
    ],
)
def test_impossible_transactional_ids_are_refused(
    transactions: ScriptedBroker, ask: Any, name: str, message: str
) -> None:
    for verb in ("describe", "abort"):
        assert message in ask("transaction", verb, name, expect=1).err
