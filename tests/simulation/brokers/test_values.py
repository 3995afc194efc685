"""Keys of simulated clients: a few shared ones, and some that are written exactly once and perhaps deleted."""

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from jepsen.simulation.brokers.options import BrokerOptions, draw, draw_record_options
from jepsen.simulation.brokers.workload.values import Values
from raftlog.types import TopicPartition


def writes_of(options: BrokerOptions) -> list[tuple[str, bool]]:
    """Return the keys that two clients write, each with a flag for deletion."""
    found = []
    for process in (1, 2):
        values = Values(process, Random(process), options)
        for _ in range(200):
            send = values.draw(TopicPartition("t", 0), is_compacted=True)[0]
            found += [(key, value in send.tombstones) for value, key in zip(send.values, send.keys, strict=True)]
    return found


@pytest.mark.parametrize("once", [0.0, 0.2, 0.5])
def test_some_keys_are_written_exactly_once(once: float) -> None:
    options = draw(1)
    writes = writes_of(replace(options, uses=replace(options.uses, keys=5, once=once)))
    counts = Counter(key for key, _ in writes)
    once_written = {key for key in counts if key.startswith("once-")}
    assert len(once_written) / counts.total() == pytest.approx(once, abs=0.07)
    assert counts.keys() - once_written == {f"key-{number}" for number in range(5)}
    for key in once_written:
        _first, *later = [is_removal for each, is_removal in writes if each == key]
        assert later in ([], [True])
    again = [key for key in once_written if counts[key] == 2]
    assert bool(again) == bool(once), "some are removed afterwards"
    assert len(again) < len(once_written) / 2 or not once, "most are never removed"


def test_unique_keys_are_drawn_only_for_the_records_level() -> None:
    assert {draw(seed).uses.once for seed in range(50)} == {0.0}
    drawn = [draw_record_options(seed).uses for seed in range(50)]
    assert {uses.once for uses in drawn} == {0.0, 0.2, 0.5}
    assert {uses.trims_compacted for uses in drawn} == {False, True}
