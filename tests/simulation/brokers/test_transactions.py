"""Transactions of Kafka clients in simulated clusters: every operation is run, and planted bugs are detected."""

from collections import Counter
from collections.abc import Callable
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
from raftlog.partitions.replica.producer_state import ProducerState
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
    world.cluster.loop.run_for(15)
    world.converge()
    for kind in ("transaction ok", "chain ok", "offsets ok", "transaction fail aborted", "transaction fail left open"):
        assert counts[kind] > 0, counts
    world.cluster.close()


def open_transactions_are_stable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Report the end of the delivered records as the last stable offset."""
    monkeypatch.setattr(ProducerState, "stable_end", property(lambda self: self._group.high_watermark))


def pending_offsets_are_visible(monkeypatch: pytest.MonkeyPatch) -> None:
    """Show offsets of open transactions as committed and stable ones."""
    put = FoldedGroups.put

    def wrong(self: FoldedGroups, key: Any, value: Any) -> None:
        if isinstance(key, PendingOffsetKey) and value is not None:
            self.offsets.setdefault(key.group, {})[key.topic_id, key.partition] = value.committed()
        else:
            put(self, key, value)

    monkeypatch.setattr(FoldedGroups, "put", wrong)


@pytest.mark.parametrize(
    ("bug", "found"),
    [
        (open_transactions_are_stable, {"aborted-read", "aborted-above-stable"}),
        (pending_offsets_are_visible, {"aborted-offset", "skipped-input", "consumed-twice"}),
    ],
)
def test_planted_bugs_of_transactions_are_detected(
    monkeypatch: pytest.MonkeyPatch, bug: Callable[[pytest.MonkeyPatch], None], found: set[str]
) -> None:
    bug(monkeypatch)
    failure = simulate_brokers(6, transactions=True).failure
    assert failure is not None
    assert failure.name in found


def test_the_option_is_never_drawn_from_a_seed_and_only_for_brokers() -> None:
    assert not any(draw(seed).transactions for seed in range(100))
    done = CliRunner().invoke(main, ["--level", "driver", "--transactions"])
    assert (done.exit_code, "--level broker" in done.stderr) == (2, True)
