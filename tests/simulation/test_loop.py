"""Ordinary asyncio code on the virtual loop: equal behaviour, no real waiting, and errors for real I/O."""

import asyncio
import math
import socket
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jepsen.simulation import Deadlock, Livelock, NodeClock, RealInputOutput, VirtualLoop
from jepsen.simulation.virtual_time import loop as loop_module
from jepsen.simulation.virtual_time.loop import to_ns


def test_sleeping_takes_virtual_time_only(loop: VirtualLoop) -> None:
    async def nap() -> float:
        await asyncio.sleep(86_400)
        return asyncio.get_running_loop().time()

    assert loop.run_until_complete(nap()) == 86_400.0


def test_callbacks_run_in_order_and_timers_by_time_then_by_creation(loop: VirtualLoop) -> None:
    order: list[str] = []
    loop.call_later(2, order.append, "second timer")
    loop.call_at(1, order.append, "first timer")
    loop.call_at(1, order.append, "first timer, set later")
    loop.call_soon(order.append, "soon")
    cancelled = loop.call_later(1.5, order.append, "never")
    cancelled.cancel()
    assert cancelled.cancelled()
    loop.run_for(2)
    assert order == ["soon", "first timer", "first timer, set later", "second timer"]


def test_a_timer_may_be_at_infinity_and_sweeping_keeps_other_timers(loop: VirtualLoop) -> None:
    fired: list[int] = []
    loop.call_later(math.inf, fired.append, -1)
    handles = [loop.call_later(delay, fired.append, delay) for delay in range(1, 1001)]
    for handle in handles:
        if handle.when() % 100:
            handle.cancel()
    loop.run_for(2000)
    assert fired == list(range(100, 1001, 100))


@given(st.floats(0, 1e9))
def test_a_sleep_until_a_time_ends_no_earlier(moment: float) -> None:
    nanoseconds = to_ns(moment)
    assert nanoseconds / 1e9 >= moment
    assert nanoseconds <= moment * 1e9 + 1 + 2 * math.ulp(moment) * 1e9


def test_asyncio_primitives_work_on_the_virtual_loop(loop: VirtualLoop) -> None:
    async def everything() -> list[Any]:
        """Use timeouts, queues, locks, task groups and cancellation; return what was seen."""
        seen: list[Any] = []
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await asyncio.Event().wait()
        seen.append(asyncio.get_running_loop().time())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.sleep(10), 1)
        queue: asyncio.Queue[int] = asyncio.Queue(1)

        async def fill() -> None:
            for number in range(3):
                await queue.put(number)

        async with asyncio.TaskGroup() as group:
            group.create_task(fill())
            seen.extend([await queue.get() for _ in range(3)])
        seen.append(await asyncio.gather(asyncio.sleep(3, "a"), asyncio.sleep(1, "b")))
        done, pending = await asyncio.wait(
            [asyncio.ensure_future(asyncio.sleep(s)) for s in (1, 9)], return_when="FIRST_COMPLETED"
        )
        seen.append((len(done), len(pending)))
        lock = asyncio.Lock()
        async with lock, asyncio.Semaphore(1):
            seen.append(asyncio.get_running_loop().time())
        return seen

    assert loop.run_until_complete(everything()) == [5.0, 0, 1, 2, ["a", "b"], (1, 1), 10.0]


def test_the_runner_of_asyncio_can_use_the_virtual_loop() -> None:
    async def main() -> float:
        asyncio.get_running_loop().create_task(asyncio.sleep(1000))
        await asyncio.sleep(1)
        return asyncio.get_running_loop().time()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        assert runner.run(main()) == 1.0


def test_async_generators_are_closed_as_usual(loop: VirtualLoop) -> None:
    closed: list[str] = []

    async def numbers() -> Any:
        try:
            while True:
                yield 1
        finally:
            closed.append("closed")

    async def first() -> int:
        async for number in numbers():
            return int(number)
        return 0

    assert loop.run_until_complete(first()) == 1
    loop.run_for(1)
    assert closed == ["closed"]


def test_the_loop_runs_until_a_condition_a_time_or_a_bound(loop: VirtualLoop) -> None:
    counts: list[int] = []

    async def count() -> None:
        while True:
            await asyncio.sleep(1)
            counts.append(len(counts))

    task = loop.create_task(count())
    assert loop.run_until(lambda: len(counts) == 3)
    assert loop.now_ns == 3_000_000_000
    assert loop.run_until(lambda: len(counts) == 3), "holds already"
    assert not loop.run_until(lambda: False, within_s=2.5)
    assert loop.now_ns == 5_500_000_000
    loop.run_until_time(7)
    assert len(counts) == 7, "what is due at the end is done"
    loop.run_until_time(1)
    assert loop.now_ns == 7_000_000_000, "time never falls"
    task.cancel()


def test_a_condition_stops_between_two_callbacks(loop: VirtualLoop) -> None:
    seen: list[int] = []
    for number in range(5):
        loop.call_soon(seen.append, number)
    loop.run_until(lambda: len(seen) == 2)
    assert seen == [0, 1]
    loop.run_for(0)
    assert seen == [0, 1, 2, 3, 4]


def test_the_simulation_can_check_after_every_step(loop: VirtualLoop) -> None:
    steps: list[int] = []
    loop.after_step = lambda: steps.append(loop.now_ns)
    loop.call_soon(lambda: None)
    loop.call_later(1, lambda: None)
    loop.run_for(2)
    assert steps == [0, 1_000_000_000]


def test_waiting_forever_is_a_deadlock_with_the_name_of_the_waiter(loop: VirtualLoop) -> None:
    async def wait_for_nothing() -> None:
        await asyncio.Event().wait()

    task = loop.create_task(wait_for_nothing(), name="patient")
    with pytest.raises(Deadlock, match=r"patient \(.*wait_for_nothing\)"):
        loop.run_until_complete(task)


def test_time_without_progress_is_a_livelock(loop: VirtualLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_module, "CALLBACKS_PER_INSTANT_MAX", 1000)

    async def spin() -> None:
        while True:
            await asyncio.sleep(0)

    loop.create_task(spin())
    with pytest.raises(Livelock):
        loop.run_for(1)


def test_an_unhandled_exception_ends_the_run_with_its_time(loop: VirtualLoop) -> None:
    def explode() -> None:
        raise ZeroDivisionError("boom")

    seen: list[int] = []
    loop.call_later(1, explode)
    loop.call_later(1, seen.append, 1)
    with pytest.raises(ZeroDivisionError) as caught:
        loop.run_for(5)
    assert caught.value.__notes__[0].startswith("at 1.000000000 s: <handle of the harness")
    loop.run_for(5)
    assert seen == [1], "the run may go on"


def test_a_failed_task_of_a_process_ends_the_run_unless_it_is_handled(loop: VirtualLoop) -> None:
    async def explode() -> None:
        raise ZeroDivisionError("boom")

    loop.add_node("n1").start().spawn(explode(), name="bomb")
    with pytest.raises(ZeroDivisionError, match="boom"):
        loop.run_for(1)
    handled: list[str] = []
    loop.set_exception_handler(lambda _, context: handled.append(context["message"]))
    loop.nodes[0].running_process().spawn(explode(), name="bomb")
    loop.run_for(1)
    assert handled == ["bomb failed"]


REAL: dict[str, Callable[[VirtualLoop], Awaitable[object] | object]] = {
    "a thread": lambda loop: loop.run_in_executor(None, print),
    "a thread by to_thread": lambda loop: loop.run_until_complete(asyncio.to_thread(print)),
    "a connection": lambda loop: loop.create_connection(asyncio.Protocol, "127.0.0.1", 1),
    "a server": lambda loop: loop.create_server(asyncio.Protocol, "127.0.0.1", 0),
    "streams": lambda loop: loop.run_until_complete(asyncio.open_connection("127.0.0.1", 1)),
    "a subprocess": lambda loop: loop.run_until_complete(asyncio.create_subprocess_exec("true")),
    "a name": lambda loop: loop.getaddrinfo("localhost", 80),
    "a socket": lambda loop: loop.sock_recv(socket.socket(), 1),
    "a reader": lambda loop: loop.add_reader(0, print),
    "a signal": lambda loop: loop.add_signal_handler(15, print),
}


@pytest.mark.parametrize("what", REAL)
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_real_input_and_output_is_an_error(loop: VirtualLoop, what: str) -> None:
    with pytest.raises(RealInputOutput):
        REAL[what](loop)


def test_other_threads_are_an_error(loop: VirtualLoop) -> None:
    caught: list[BaseException] = []

    def call() -> None:
        try:
            loop.call_soon_threadsafe(print)
        except RealInputOutput as error:
            caught.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert len(caught) == 1
    seen: list[int] = []
    loop.call_soon_threadsafe(seen.append, 1)
    loop.run_for(0)
    assert seen == [1]


def test_tasks_in_sets_iterate_in_an_order_that_does_not_depend_on_addresses(loop: VirtualLoop) -> None:
    async def abort() -> list[str]:
        order: list[str] = []

        async def work(name: str) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                order.append(name)

        async def fail() -> None:
            raise KeyError

        with suppress(ExceptionGroup):
            async with asyncio.TaskGroup() as group:
                for number in range(20):
                    group.create_task(work(str(number)))
                group.create_task(fail())
        return order

    numbers = [int(name) for name in loop.run_until_complete(abort())]
    assert sorted(numbers) == list(range(20))
    futures = [loop.create_future(), loop.create_future()]
    first, second = map(hash, futures)
    assert [first, second] == [second - 1, hash(futures[1])]


@given(drift=st.integers(-900_000, 900_000), offset=st.integers(0, 10**15), seed=st.integers(0, 2**32))
def test_a_clock_and_its_inverse_agree(drift: int, offset: int, seed: int) -> None:
    random = Random(seed)
    clock = NodeClock(offset_ns=offset, drift_ppm=drift)
    now = 0
    for _ in range(20):
        now += random.randrange(10**12)
        shown = clock.local_ns(now)
        assert shown <= (later := clock.local_ns(now + 1))
        assert later >= shown
        target = shown + random.randrange(10**12)
        at = clock.global_ns(target)
        assert clock.local_ns(at) >= target
        assert at == now or clock.local_ns(at - 1) < target
        clock.set_drift(random.randrange(-900_000, 900_000), now)
        assert clock.local_ns(now) == shown, "a clock bends and does not jump"
