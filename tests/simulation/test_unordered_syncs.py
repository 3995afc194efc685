"""Syncs of a simulated disk that complete in any order; seeds without the option are unchanged."""

from random import Random

import pytest

from jepsen.simulation import VirtualLoop
from jepsen.simulation.brokers.founding import draw as draw_founding
from jepsen.simulation.brokers.options import draw as draw_brokers
from jepsen.simulation.nemesis.sync_delays import SLOWNESS, UnorderedDelays
from jepsen.simulation.options import draw
from jepsen.simulation.timed_disk import TimedDisk

DELAY_NS = 1_000_000
NAMES = ("/journal/00000000.journal", "/segment.log", "/")


def completion_order(loop: VirtualLoop, unordered: UnorderedDelays | None, random: Random) -> list[tuple[int, str]]:
    """Return numbers and kinds of successively submitted syncs in the order of their completion."""
    disk = TimedDisk(random, loop, DELAY_NS, unordered)
    disk.process = loop.add_node("n1").start()
    disk.make_directory("/journal")
    files = {name: disk.open(name, create=True) for name in NAMES[:2]}
    done: list[tuple[int, str]] = []

    def submit(number: int, name: str) -> None:
        of_files = [files[name]] if name in files else []
        disk.submit_sync(of_files, [] if of_files else [name], lambda _: done.append((number, name)))

    for number in range(30):
        submit(number, NAMES[number % 3])
    loop.run_for(1)
    assert disk.pending_syncs == 0
    return done


def test_syncs_complete_in_order_without_the_option(loop: VirtualLoop) -> None:
    done = completion_order(loop, None, Random(1))
    assert [number for number, _ in done] == list(range(30))


@pytest.mark.parametrize("seed", range(5))
def test_syncs_complete_in_any_order_with_the_option(loop: VirtualLoop, seed: int) -> None:
    done = completion_order(loop, UnorderedDelays(Random(seed)), Random(1))
    numbers = [number for number, _ in done]
    assert sorted(numbers) == list(range(30))
    assert numbers != list(range(30))
    assert any(
        [number for number, name in done if name == kind] != list(range(at, 30, 3)) for at, kind in enumerate(NAMES)
    )


def test_each_part_of_a_disk_has_its_own_latency() -> None:
    drawn = [UnorderedDelays(Random(seed)) for seed in range(200)]
    parts = {(each.journal, each.segments, each.directories) for each in drawn}
    assert parts == {(a, b, c) for a in SLOWNESS for b in SLOWNESS for c in SLOWNESS}
    assert max(SLOWNESS) == 20


def test_the_latencies_draw_nothing_from_the_generator_of_the_disk(loop: VirtualLoop) -> None:
    random, alone = Random(1), Random(1)
    disk = TimedDisk(random, loop, DELAY_NS, UnorderedDelays(Random(2)))
    disk.process = loop.add_node("n1").start()
    disk.submit_sync([], ["/"], lambda _: None)
    assert random.getstate() == alone.getstate()


def test_the_option_is_never_drawn_from_a_seed() -> None:
    for seed in range(100):
        assert not draw(seed).unordered_syncs
        assert not draw_brokers(seed).unordered_syncs
        assert not draw_founding(seed).unordered_syncs
