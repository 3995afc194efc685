"""Steps that held the event loop: times, names and events, with a clock and a scheduler under test control."""

import logging
import threading
from functools import partial

import pytest

from raftlog.runtime import loop_holds
from raftlog.runtime.loop_holds import LOOP_HOLDS, OTHER, LoopHolds
from tests.runtime import drivers


class ClockWorld:
    """Clock in milliseconds, and measured holds of the event loop."""

    def __init__(self) -> None:
        self.now_ms = self.waited_ms = 0.0
        self.holds = LoopHolds(lambda: self.now_ms / 1000)
        self.holds.begin(lambda: self.waited_ms / 1000)

    def run(self, own_ms: float, waiting_ms: float = 0.0) -> None:
        self.now_ms += own_ms + waiting_ms
        self.waited_ms += waiting_ms

    def seen(self) -> dict[str, tuple[int, int]]:
        """Return counts and longest times in milliseconds."""
        holds = self.holds
        return {name: (count, round(holds.longest_s[name] * 1000)) for name, count in holds.counts.items()}


@pytest.fixture
def world() -> ClockWorld:
    return ClockWorld()


def test_only_a_step_above_five_milliseconds_counts(world: ClockWorld) -> None:
    for own_ms in (4, 6, 9):
        with world.holds.step("fill"):
            world.run(own_ms)
    assert world.seen() == {"fill": (2, 9)}


def test_time_without_a_cpu_does_not_count(world: ClockWorld) -> None:
    with world.holds.step("fill"):
        world.run(4, waiting_ms=50)
    assert world.seen() == {}
    with world.holds.step("fill"):
        world.run(7, waiting_ms=50)
    assert world.seen() == {"fill": (1, 7)}


def test_a_step_does_not_count_nested_steps(world: ClockWorld) -> None:
    with world.holds.step("turn"):
        world.run(3)
        with world.holds.step("fill"):
            world.run(8, waiting_ms=5)
        world.run(1)
    assert world.seen() == {"fill": (1, 8)}
    with world.holds.step("turn"):
        world.run(4)
        with world.holds.step("fill"):
            world.run(8)
        world.run(3)
    assert world.seen() == {"fill": (2, 8), "turn": (1, 7)}


def test_a_late_tick_without_a_step_counts_as_other(world: ClockWorld) -> None:
    world.holds.tick(0.004)
    with world.holds.step("fill"):
        world.run(20)
    world.holds.tick(0.021)
    world.run(0, waiting_ms=30)
    world.holds.tick(0.031)
    assert world.seen() == {"fill": (1, 20)}
    world.run(9)
    world.holds.tick(0.009)
    assert world.seen() == {"fill": (1, 20), OTHER: (1, 9)}


def test_a_callback_is_named_by_its_function(world: ClockWorld) -> None:
    for work in (world.run, partial(world.run, 1)):
        began, counted_s = world.holds.clock(), world.holds.counted_s
        world.run(6)
        world.holds.note_since(began, work, counted_s)
    assert world.seen() == {"ClockWorld.run": (2, 6)}


def test_a_step_much_longer_than_before_is_logged(world: ClockWorld, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    for own_ms in (6, 7, 8, 20, 21):
        with world.holds.step("fill"):
            world.run(own_ms)
    assert [(record.step, record.held_ms) for record in caplog.records] == [("fill", 6.0), ("fill", 20.0)]  # type: ignore[attr-defined]


def test_other_threads_and_times_before_the_start_do_not_count(world: ClockWorld) -> None:
    world.run(10)
    thread = threading.Thread(target=world.holds.note_since, args=(0.0, "fill", 0.0))
    thread.start()
    thread.join()
    assert world.seen() == {}
    early = LoopHolds(lambda: 1.0)
    early.note_since(0.0, "fill", 0.0)
    assert early.counts == {}


def test_steps_of_a_driver_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_holds, "HELD_FROM_S", -1.0)
    for name in ("counts", "longest_s"):
        monkeypatch.setattr(LOOP_HOLDS, name, {})
    for name in ("_waited_s", "_thread", "counted_s"):
        monkeypatch.setattr(LOOP_HOLDS, name, getattr(LOOP_HOLDS, name))
    LOOP_HOLDS.begin(lambda: 0.0)
    with drivers.World() as world:
        world.fill(world.leader(), 2)
        world.converge()
    assert {"Driver._turn", "Driver._tick", "Driver._receive", "Driver._settle", "segment write"} <= {
        *LOOP_HOLDS.counts
    }


def test_the_kernel_reports_the_waiting_time() -> None:
    holds = LoopHolds()
    holds.begin()
    assert holds._waited_s is not None
    assert holds._waited_s() >= 0
