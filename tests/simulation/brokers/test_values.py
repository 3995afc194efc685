"""Keys that clients write: a few that are shared, and some that are written exactly once."""

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from jepsen.simulation.brokers.options import BrokerOptions, draw, draw_keeping
from jepsen.simulation.brokers.workload.values import Values
from raftlog.types import TopicPartition


def keys_of(options: BrokerOptions) -> Counter[str]:
    found: Counter[str] = Counter()
    for process in (1, 2):
        values = Values(process, Random(process), options)
        for _ in range(200):
            found.update(values.draw(TopicPartition("t", 0), is_compacted=True)[0].keys)
    return found


@pytest.mark.parametrize("once", [0.0, 0.2, 0.5])
def test_some_keys_are_written_exactly_once(once: float) -> None:
    options = draw(1)
    keys = keys_of(replace(options, uses=replace(options.uses, keys=5, once=once)))
    once_written = {key: count for key, count in keys.items() if key.startswith("once-")}
    assert set(once_written.values()) <= {1}
    assert len(once_written) / keys.total() == pytest.approx(once, abs=0.07)
    assert {key for key in keys if key not in once_written} == {f"key-{number}" for number in range(5)}


def test_they_are_drawn_for_the_records_level_alone() -> None:
    assert {draw(seed).uses.once for seed in range(50)} == {0.0}
    drawn = [draw_keeping(seed).uses for seed in range(50)]
    assert {uses.once for uses in drawn} == {0.0, 0.2, 0.5}
    assert {uses.trims_compacted for uses in drawn} == {False, True}
