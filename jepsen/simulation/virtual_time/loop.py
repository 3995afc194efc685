"""Asyncio event loop in virtual time: when no callback is ready, time jumps to the next timer.

Ordinary asyncio code runs unchanged on it: tasks, sleep, timeouts, events, queues, gather, task groups. The order of
callbacks is fixed: first in, first out; timers by time, then by the order in which they were set. So a run depends on
nothing but the code and the random generators that the harness hands out, and `trace.digest()` shows it.

Nodes (`add_node`) have processes, clocks, pauses and crashes; `loop.time()` is the clock of the process whose code
runs. Code of the harness belongs to no node and has the time of the simulation. `node` describes the effects of a pause
and of a crash.

An unhandled exception ends the run: `run_until` raises it. It raises `Deadlock` when a task waits and nothing can ever
happen again, and `Livelock` when time does not advance. Real input and output is an error (`forbidden`). Not
deterministic: iteration over sets of objects that hash by address, and calls by the garbage collector.

Invariants: `now_ns` never falls · a callback runs at most once · a dead process runs nothing.
"""

import asyncio
import math
import threading
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, copy_context
from typing import Any, Final, TypeVar, TypeVarTuple
from zlib import crc32

from jepsen.simulation.node import Node, Process, State, is_dead
from jepsen.simulation.trace import HARNESS, Trace
from jepsen.simulation.virtual_time.clock import NodeClock
from jepsen.simulation.virtual_time.coroutine_cleanup import unwind
from jepsen.simulation.virtual_time.forbidden import RealInputOutput, forbid
from jepsen.simulation.virtual_time.tasks import VirtualFuture, VirtualHandle, VirtualTask, name_of
from jepsen.simulation.virtual_time.timers import Timers

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

SECOND_NS: Final = 1_000_000_000
CALLBACKS_PER_INSTANT_MAX: Final = 1_000_000
FAR_NS: Final = 1 << 62
"""Latest time of a timer (146 years); later ones, such as `float('inf')`, are set to it."""


class Deadlock(AssertionError):
    """Error: tasks wait, but no callback is ready and no timer is set."""


class Livelock(AssertionError):
    """Error: callbacks schedule callbacks without end, and time does not advance."""


class VirtualLoop(asyncio.BaseEventLoop):
    """Virtual event loop, see the module. Closing it unwinds crashed and unfinished tasks."""

    def __init__(self, trace: Trace | None = None) -> None:
        super().__init__()
        self.set_debug(False)  # whatever the environment says: debug mode reads the real clock
        self.set_exception_handler(_fail_run)
        self.now_ns = 0
        self.trace = Trace() if trace is None else trace
        self.nodes: list[Node] = []
        self.process: Process | None = None
        """The process whose code runs now."""
        self.after_step: Callable[[], object] | None = None
        """Called after every callback; a simulation checks its invariants there."""
        self._ready_handles: list[VirtualHandle] = []
        self._timers = Timers()
        self._numbers = 0
        self._labels: dict[str, int] = {}
        self._instant_steps = 0
        self._deadline_ns: int | None = None
        self._condition: Callable[[], bool] | None = None
        self._failure: BaseException | None = None
        self._dead_tasks: list[VirtualTask[Any]] = []
        self._thread = threading.get_ident()

    # Running

    def run_until(self, condition: Callable[[], bool], *, within_s: float | None = None) -> bool:
        """Run until the condition is true after a callback; return False if that takes longer than `within_s`."""
        if condition():
            return True
        self._condition = condition
        try:
            self._run_to(None if within_s is None else self.now_ns + to_ns(within_s))
        finally:
            self._condition = None
        return condition()

    def run_until_time(self, time_s: float) -> None:
        """Run all callbacks due up to and including `time_s` of the simulation, and set the time to `time_s`."""
        self._run_to(max(self.now_ns, to_ns(time_s)))

    def run_for(self, seconds: float) -> None:
        """Run all callbacks due within the next `seconds` of the simulation."""
        self._run_to(self.now_ns + to_ns(seconds))

    def _run_to(self, deadline_ns: int | None) -> None:
        """Run until the deadline, or without one until `run_until`'s condition holds."""
        self._deadline_ns = deadline_ns
        try:
            self.run_forever()
        finally:
            self._deadline_ns = None

    def _run_once(self) -> None:
        """Run one turn: ready callbacks and due timers. Called by `run_forever`."""
        if not self._ready_handles and not self._stop_requested() and not self._advance_time():
            self.stop()
            return
        self._timers.take_due(self.now_ns, self._ready_handles)
        turn, self._ready_handles = self._ready_handles, []
        for place, handle in enumerate(turn):
            if handle.is_cancelled:
                continue
            process = handle.process
            if process is not None and process.state is not State.RUNNING:
                if process.state is State.PAUSED:
                    process.held.append(handle)
                continue
            self._execute(handle, process)
            if self._failure is not None or (self._condition is not None and self._condition()):
                self._ready_handles[:0] = turn[place + 1 :]
                self._end_turn()
                return

    def _stop_requested(self) -> bool:
        """Return whether `stop` was called."""
        return bool(getattr(self, "_stopping", False))

    def _end_turn(self) -> None:
        """Stop the loop, and raise the failure of the run if there is one."""
        self.stop()
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def _advance_time(self) -> bool:
        """Advance the time to the next timer; return False if the run ends before it."""
        self._instant_steps = 0
        due_ns, deadline_ns = self._timers.next_ns(), self._deadline_ns
        if due_ns is None and deadline_ns is None:
            raise Deadlock(self._describe_waiting_tasks())
        if due_ns is not None and (deadline_ns is None or due_ns <= deadline_ns):
            self.now_ns = max(self.now_ns, due_ns)
            return True
        assert deadline_ns is not None, "there is a timer or a deadline"
        self.now_ns = max(self.now_ns, deadline_ns)
        return False

    def _execute(self, handle: VirtualHandle, process: Process | None) -> None:
        """Run one callback as part of its process, and record it in the trace. Raises `Livelock`."""
        self._instant_steps += 1
        if self._instant_steps > CALLBACKS_PER_INSTANT_MAX:
            raise Livelock(f"{self._instant_steps} callbacks at {self.now_ns / 1e9:.9f} s, the last one {handle}")
        callback = handle.callback
        self.trace.record_step(self.now_ns, HARNESS if process is None else process.node.number, self._label(callback))
        self.process = process
        try:
            handle.context.run(callback, *handle.arguments)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001 - as asyncio does: whatever it is, the handler decides
            self.call_exception_handler({"message": f"{handle} failed", "exception": error, "handle": handle})
        finally:
            self.process = None
        if self.after_step is not None:
            self.after_step()

    def _label(self, callback: Callable[..., object]) -> int:
        """Return the callback's label for the trace: a checksum of its name, or the label of its task."""
        owner = getattr(callback, "__self__", None)
        if type(owner) is VirtualTask:
            return owner.label
        name = name_of(callback)
        label = self._labels.get(name)
        if label is None:
            label = self._labels[name] = crc32(name.encode())
        return label

    def fail_run(self, context: dict[str, Any]) -> None:
        """End the run at the first failure in code of a process that is not dead.

        `context` is the argument of asyncio's exception handlers."""
        failed_task = context.get("future") or context.get("task")
        if self._failure is not None or is_dead(getattr(failed_task, "process", None)):
            return
        self._failure = context.get("exception") or RuntimeError(context["message"])
        self._failure.add_note(f"at {self.now_ns / 1e9:.9f} s: {context['message']}")

    def _describe_waiting_tasks(self) -> str:
        """Return a text with the number of waiting tasks and the names of the first ten."""
        waiting = sorted(self._tasks(), key=lambda task: task.number)
        shown = "; ".join(f"{task.get_name()} ({name_of(task.get_coro())})" for task in waiting[:10])
        return f"nothing will ever happen after {self.now_ns / 1e9:.9f} s; {len(waiting)} tasks wait: {shown}"

    # Scheduling

    def time(self) -> float:
        """Return the seconds on the monotonic clock of the calling process."""
        process = self.process
        return (self.now_ns if process is None else process.node.clock.local_ns(self.now_ns)) / SECOND_NS

    def call_soon(self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None) -> VirtualHandle:
        """Schedule a callback for the next turn, in the process of its context."""
        handle = VirtualHandle(callback, args, copy_context() if context is None else context)
        self._ready_handles.append(handle)
        return handle

    def call_later(
        self, delay: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> VirtualHandle:
        """Schedule a callback after `delay` seconds on the clock of the calling process."""
        return self._call_at_local_ns(self._local_ns() + to_ns(max(0, delay)), callback, args, context)

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> VirtualHandle:
        """Schedule a callback at a time, in seconds, on the clock of the calling process."""
        return self._call_at_local_ns(to_ns(when), callback, args, context)

    def call_at_ns(self, when_ns: int, callback: Callable[[*Ts], object], *args: *Ts) -> VirtualHandle:
        """Schedule a callback that belongs to no node at a time of the simulation.

        For the harness, networks and disks."""
        handle = VirtualHandle(callback, args, Context(), when_ns / SECOND_NS)
        self._timers.add(when_ns, self.next_number(), handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> VirtualHandle:
        """Schedule a callback as `call_soon` does. Raises `RealInputOutput` in another thread."""
        if threading.get_ident() != self._thread:
            raise RealInputOutput("call_soon_threadsafe from another thread: a simulation has one")
        return self.call_soon(callback, *args, context=context)

    def _local_ns(self) -> int:
        """Return the nanoseconds on the monotonic clock of the calling process."""
        return self.now_ns if self.process is None else self.process.node.clock.local_ns(self.now_ns)

    def _call_at_local_ns(
        self, local_ns: int, callback: Callable[..., object], args: tuple[Any, ...], context: Context | None
    ) -> VirtualHandle:
        """Schedule a callback at a time on the clock of the calling process."""
        when_ns = local_ns if self.process is None else self.process.node.clock.global_ns(local_ns)
        context = copy_context() if context is None else context
        handle = VirtualHandle(callback, args, context, local_ns / SECOND_NS)
        self._timers.add(when_ns, self.next_number(), handle)
        return handle

    def next_number(self) -> int:
        """Return the next number of a timer, task or future."""
        self._numbers += 1
        return self._numbers

    # Futures and tasks

    def create_future(self) -> VirtualFuture[Any]:
        """Return a future that belongs to the calling process."""
        future: VirtualFuture[Any] = VirtualFuture(loop=self)
        if self.process is not None:
            future.process = self.process
        return future

    def create_task(
        self,
        coro: Coroutine[Any, Any, T] | Generator[Any, None, T],
        *,
        name: object = None,
        context: Context | None = None,
    ) -> VirtualTask[T]:
        """Return a task that belongs to the process of its context; for a dead process it never runs."""
        context = copy_context() if context is None else context
        task = VirtualTask(coro, self, None if name is None else str(name), context)
        if self.is_closed() or is_dead(task.process):
            # Code that is being unwound: its task never runs.
            task.abandon()
            coro.close()
        return task

    def set_task_factory(self, factory: object) -> None:
        """Accept only None: the loop makes its own tasks."""
        assert factory is None, "tasks of the virtual loop are its own"

    def _tasks(self) -> list[VirtualTask[Any]]:
        """Return all tasks that have not finished, in no reproducible order."""
        return [task for task in asyncio.all_tasks(self) if isinstance(task, VirtualTask)]

    # For nodes

    def add_node(self, name: str, clock: NodeClock | None = None) -> Node:
        """Return a new machine without a process; `start` it."""
        node = Node(self, len(self.nodes), name, NodeClock() if clock is None else clock)
        self.nodes.append(node)
        return node

    def note(self, node: str, text: str) -> None:
        """Add an event to the timeline and the digest."""
        self.trace.note(self.now_ns, node, text)

    def schedule(self, context: Context, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        """Schedule the callback in the context for the next turn."""
        self._ready_handles.append(VirtualHandle(callback, args, context))

    def release(self, handles: list[VirtualHandle]) -> None:
        """Schedule callbacks that were held back while their process was paused."""
        self._ready_handles.extend(handles)

    def spawn(self, coroutine: Coroutine[Any, Any, T], name: str | None, context: Context) -> VirtualTask[T]:
        """Start a task whose failure ends the run."""
        task = self.create_task(coroutine, name=name, context=context)
        task.add_done_callback(self._on_spawned_done, context=context)
        return task

    def _on_spawned_done(self, task: asyncio.Task[Any]) -> None:
        """End the run if the task failed."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self.call_exception_handler({"message": f"{task.get_name()} failed", "exception": error, "task": task})

    def remove_tasks(self, process: Process) -> None:
        """Remove the tasks of a dead process; their coroutines are unwound when the loop is closed."""
        dead = [task for task in self._tasks() if task.process is process]
        for task in sorted(dead, key=lambda task: task.number):
            task.abandon()
            self._dead_tasks.append(task)

    def close(self) -> None:
        """Crash all processes, unwind their remaining coroutines, and close the loop."""
        if self.is_closed():
            return
        living = sorted(self._tasks(), key=lambda task: task.number)
        super().close()
        for task in living:
            task.abandon()
        unwind(self, [*self._dead_tasks, *living])
        self._ready_handles.clear()
        self._timers.clear()
        self._dead_tasks.clear()


forbid(VirtualLoop)


def _fail_run(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Pass a failure to its loop, as an asyncio exception handler."""
    assert isinstance(loop, VirtualLoop), loop
    loop.fail_run(context)


def to_ns(seconds: float) -> int:
    """Return nanoseconds, rounded up, so that no timer ends early."""
    if seconds >= FAR_NS / SECOND_NS:
        return FAR_NS
    nanoseconds = math.ceil(seconds * SECOND_NS)
    while nanoseconds / SECOND_NS < seconds:
        nanoseconds += max(1, int(math.ulp(seconds) * SECOND_NS))
    return nanoseconds
