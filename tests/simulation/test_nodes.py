"""Simulated nodes: own clocks, pauses that delay callbacks, crashes that destroy state."""

import asyncio
from contextlib import suppress

import pytest

from jepsen.simulation import Node, NodeClock, VirtualLoop
from jepsen.simulation.virtual_time.clock import WALL_START_NS


class ActionLog:
    """Log of actions with times on the clocks of their nodes."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, float]] = []

    def write(self, what: str) -> None:
        self.lines.append((what, round(asyncio.get_running_loop().time(), 6)))

    async def every_second(self, count: int = 100) -> None:
        for number in range(count):
            await asyncio.sleep(1)
            self.write(str(number))


@pytest.fixture
def diary() -> ActionLog:
    return ActionLog()


@pytest.fixture
def node(loop: VirtualLoop) -> Node:
    return loop.add_node("n1")


def test_code_of_a_node_uses_the_nodes_clock(loop: VirtualLoop, diary: ActionLog) -> None:
    fast = loop.add_node("fast", NodeClock(offset_ns=10**12, drift_ppm=1_000_000))
    slow = loop.add_node("slow", NodeClock(drift_ppm=-500_000))
    fast.start().spawn(diary.every_second(2))
    slow.start().spawn(diary.every_second(1))
    loop.run_for(0.5)
    assert diary.lines == [("0", 1001.0)]
    loop.run_for(1.5)
    assert diary.lines[1:] == [("1", 1002.0), ("0", 1.0)]
    assert loop.time() == 2.0, "the harness sees the time of the simulation"
    slow.set_drift(0)
    loop.run_for(1)
    assert slow.monotonic_ns() == 2_000_000_000


def test_the_wall_clock_jumps_and_timers_do_not(loop: VirtualLoop, node: Node, diary: ActionLog) -> None:
    node.start().spawn(diary.every_second(2))
    loop.run_for(1)
    node.jump_wall(-60_000_000_000)
    loop.run_for(1)
    assert diary.lines == [("0", 1.0), ("1", 2.0)]
    assert node.wall_ns() == WALL_START_NS - 58_000_000_000


def test_tasks_that_a_node_makes_belong_to_it(loop: VirtualLoop, node: Node, diary: ActionLog) -> None:
    async def parent() -> None:
        asyncio.get_running_loop().call_later(3, diary.write, "timer")
        await asyncio.gather(diary.every_second(5), asyncio.create_task(asyncio.sleep(9)))

    node.start().spawn(parent())
    loop.run_for(1.5)
    node.crash()
    loop.run_for(10)
    assert diary.lines == [("0", 1.0)]


def test_a_pause_delays_callbacks_and_loses_none(loop: VirtualLoop, node: Node, diary: ActionLog) -> None:
    process = node.start()
    process.spawn(diary.every_second(3))
    loop.run_for(1.5)
    node.pause()
    process.call_soon(diary.write, "called while paused")
    cancelled = loop.call_at_ns(0, lambda: None)
    cancelled.cancel()
    loop.run_for(8.5)
    assert len(diary.lines) == 1
    node.resume()
    loop.run_for(2)
    assert diary.lines == [("0", 1.0), ("called while paused", 10.0), ("1", 10.0), ("2", 11.0)]


def test_a_timeout_during_a_pause_fires_first_afterwards(loop: VirtualLoop, node: Node) -> None:
    outcomes: list[str] = []

    async def lease() -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(1):
                await asyncio.sleep(0.5)
                await asyncio.sleep(0)
                outcomes.append("held")
            return
        outcomes.append("expired")

    node.start().spawn(lease())
    loop.run_for(0.25)
    node.pause()
    loop.run_for(5)
    node.resume()
    loop.run_for(1)
    assert outcomes == ["expired"]


def test_a_crash_runs_no_finally_and_the_next_process_starts_empty(loop: VirtualLoop, node: Node) -> None:
    said: list[str] = []

    async def work(name: str) -> None:
        try:
            await asyncio.sleep(1)
            said.append(f"{name} worked")
        except asyncio.CancelledError:
            said.append(f"{name} was cancelled")
            raise
        finally:
            said.append(f"{name} said goodbye")

    first = node.start()
    first.spawn(work("first"))
    loop.run_for(0.5)
    node.crash()
    assert not first.is_alive
    first.call_soon(said.append, "from the grave")
    second = node.start()
    assert second.incarnation == 2
    second.spawn(work("second"))
    loop.run_for(5)
    assert said == ["second worked", "second said goodbye"]
    loop.close()
    assert said[2:] == ["first said goodbye"], "unwound when all is over"


def test_a_crash_during_a_pause_drops_held_callbacks(loop: VirtualLoop, node: Node, diary: ActionLog) -> None:
    node.start().spawn(diary.every_second())
    loop.run_for(0.5)
    node.pause()
    loop.run_for(5)
    node.crash()
    node.start()
    loop.run_for(5)
    assert diary.lines == []


def test_a_crash_during_a_turn_drops_the_remaining_callbacks(loop: VirtualLoop, node: Node) -> None:
    seen: list[int] = []
    process = node.start()
    process.call_soon(seen.append, 1)
    process.call_soon(node.crash)
    process.call_soon(seen.append, 2)
    loop.run_for(1)
    assert seen == [1]


def test_listeners_are_notified_of_crashes_in_order(loop: VirtualLoop, node: Node) -> None:
    heard: list[str] = []
    node.on_crash(lambda process: heard.append(f"disk: {process.incarnation} {process.is_alive}"))
    node.on_crash(lambda process: heard.append("network"))
    node.start()
    node.crash()
    assert heard == ["disk: 1 False", "network"]
    assert not node.is_up


def test_an_answer_to_a_crashed_process_is_dropped(loop: VirtualLoop, node: Node) -> None:
    seen: list[int] = []
    future: asyncio.Future[int] = loop.create_future()

    async def wait() -> None:
        seen.append(await future)

    node.start().spawn(wait())
    loop.run_for(1)
    node.crash()
    future.set_result(1)
    loop.run_for(1)
    assert seen == []


def test_an_error_awaited_only_by_a_crashed_process_is_ignored(loop: VirtualLoop, node: Node) -> None:
    futures: list[asyncio.Future[None]] = []

    async def wait() -> None:
        futures.append(asyncio.get_running_loop().create_future())
        await futures[0]

    node.start().spawn(wait())
    loop.run_for(0)
    node.crash()
    futures[0].set_exception(KeyError("nobody asked"))
    loop.run_for(1)
    assert isinstance(futures.pop().exception(), KeyError), "the run goes on"


def test_coroutines_that_resist_cancellation_are_unwound_at_the_close(node: Node, loop: VirtualLoop) -> None:
    said: list[str] = []

    async def stubborn() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            said.append("once")
            task = asyncio.create_task(asyncio.sleep(1))
            assert not task.done()
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(1)

    async def group() -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(stubborn())

    node.start().spawn(group())
    loop.create_task(stubborn())
    loop.run_for(1)
    node.crash()
    loop.run_for(1)
    assert said == []
    loop.close()
    assert said == ["once", "once"]


def test_the_timeline_has_each_fault_with_its_nodes(loop: VirtualLoop, node: Node) -> None:
    node.start()
    loop.run_for(1.5)
    node.pause()
    node.resume()
    node.crash()
    assert loop.trace.timeline(last=3).splitlines() == [
        "    1.500000 s  n1       is paused",
        "    1.500000 s  n1       goes on, 0 callbacks held back",
        "    1.500000 s  n1       crashes",
    ]
