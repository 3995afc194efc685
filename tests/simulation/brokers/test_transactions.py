"""Transactions of Kafka clients in simulated clusters: every operation is run, and a planted bug is detected."""

from collections import Counter
from typing import Any

import pytest
from click.testing import CliRunner

from jepsen.checkers import Op, Transaction
from jepsen.simulation.__main__ import main
from jepsen.simulation.brokers.options import draw
from jepsen.simulation.brokers.run import simulate_brokers
from jepsen.simulation.brokers.workload.uses import NONE
from raftlog.partitions.groups.folded import FoldedGroups
from raftlog.partitions.groups.records import PendingOffsetKey
from tests.simulation.brokers.at_work import World


def test_transactions_run_every_operation() -> None:
    world = World(kafka=True, transactions=True, uses=NONE)
    counts: Counter[str] = Counter()
    feed = world.cluster.checker.feed

    def count(op: Op) -> object:
        if isinstance(op.payload, Transaction):
            kind = "chain" if op.payload.consumed else "offsets" if op.payload.group else "transaction"
            counts[f"{kind} {op.type} {op.error}".strip()] += 1
        return feed(op)

    world.cluster.checker.feed = count  # type: ignore[method-assign,assignment]  # counts, and passes them on
    kinds = ("transaction ok", "chain ok", "offsets ok", "transaction fail aborted", "transaction fail left open")
    for _ in range(15):
        world.cluster.loop.run_for(1)
        if all(counts[kind] > 0 for kind in kinds):
            break
    world.converge()
    assert all(counts[kind] > 0 for kind in kinds), counts
    world.cluster.close()


def pending_offsets_are_visible(monkeypatch: pytest.MonkeyPatch) -> None:
    """Show offsets of open transactions as committed and stable ones."""
    put = FoldedGroups.put

    def wrong(self: FoldedGroups, key: Any, value: Any) -> None:
        if isinstance(key, PendingOffsetKey) and value is not None:
            self.offsets.setdefault(key.group, {})[key.topic_id, key.partition] = value.committed()
        else:
            put(self, key, value)

    monkeypatch.setattr(FoldedGroups, "put", wrong)


def test_visible_pending_offsets_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    pending_offsets_are_visible(monkeypatch)
    failure = simulate_brokers(2, transactions=True).failure
    assert failure is not None
    assert failure.name in ("aborted-offset", "skipped-input", "consumed-twice")


def test_the_option_is_never_drawn_from_a_seed_and_only_for_brokers() -> None:
    assert not any(draw(seed).transactions for seed in range(100))
    done = CliRunner().invoke(main, ["--level", "driver", "--transactions"])
    assert (done.exit_code, "--level broker" in done.stderr) == (2, True)
