"""Simulated nodes and their processes.

A `Node` is a machine: a name, clocks, and at most one process at a time. A `Process` is one execution of the program on
it, from `start` to `crash`; callbacks and tasks belong to the process in whose context they were made.

- Paused (SIGSTOP): its callbacks and due timers are held back and run, in order, after `resume`. Its clocks go on.
- Crashed (kill -9): its scheduled callbacks never run, its tasks are never stepped again, so that no `finally` and no
  `except` of them runs: a killed process flushes, unlocks and closes nothing. Its coroutines are unwound when the loop
  is closed, when they can have no effect any more.

The loop is reached through `Scheduler`. Invariant: `node.process.state` is never `DEAD`.
"""

from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, TypeVarTuple

from jepsen.simulation.virtual_time.clock import NodeClock

if TYPE_CHECKING:  # tasks know their process, and a process holds back handles
    from jepsen.simulation.virtual_time.tasks import VirtualHandle, VirtualTask

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

OWNER: Final[ContextVar["Process"]] = ContextVar("owner")
"""The process that a context belongs to; contexts of the harness have none."""


class State(Enum):
    """State of a simulated process."""

    RUNNING = auto()
    PAUSED = auto()
    DEAD = auto()


def is_dead(process: "Process | None") -> bool:
    """Return whether this is a process that has crashed; false for None, which stands for the harness."""
    return process is not None and process.state is State.DEAD


class Scheduler(Protocol):
    """Interface of the loop that nodes need."""

    @property
    def now_ns(self) -> int:
        """Virtual time since the start of the run, in nanoseconds."""
        ...

    def schedule(self, context: Context, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        """Schedule the callback in the context for the next turn of the loop."""
        ...

    def release(self, handles: list["VirtualHandle"]) -> None:
        """Run callbacks that were held back while their process was paused."""
        ...

    def spawn(self, coroutine: Coroutine[Any, Any, T], name: str | None, context: Context) -> "VirtualTask[T]":
        """Start a task whose failure ends the run, unless it is awaited."""
        ...

    def remove_tasks(self, process: "Process") -> None:
        """Remove the tasks of a dead process from the loop's tasks."""
        ...

    def note(self, node: str, text: str) -> None:
        """Add an event of a node to the timeline."""
        ...


class Process:
    """Process of a node's program. `held` is the work that waits for `resume`; `pauses` counts its pauses."""

    def __init__(self, node: "Node", incarnation: int) -> None:
        self.node, self.incarnation = node, incarnation
        self.state = State.RUNNING
        self.pauses = 0
        self.held: list[VirtualHandle] = []
        self._context = copy_context()
        self._context.run(OWNER.set, self)

    def __repr__(self) -> str:
        return f"<process {self.incarnation} of {self.node.name} {self.state.name.lower()}>"

    @property
    def is_alive(self) -> bool:
        """Whether the process exists, running or paused."""
        return self.state is not State.DEAD

    def call_soon(self, callback: Callable[[*Ts], object], *args: *Ts) -> None:
        """Run the callback in this process; do nothing if the process is dead."""
        if self.is_alive:
            self.node.scheduler.schedule(self._context.copy(), callback, args)

    def spawn(self, coroutine: Coroutine[Any, Any, T], *, name: str | None = None) -> "VirtualTask[T]":
        """Run the coroutine as a task of this process. An exception fails the run unless the task is awaited."""
        assert self.is_alive, self
        return self.node.scheduler.spawn(coroutine, name, self._context.copy())


class Node:
    """Machine, created by `VirtualLoop.add_node`; `number` counts nodes from 0."""

    def __init__(self, scheduler: Scheduler, number: int, name: str, clock: NodeClock) -> None:
        self.scheduler, self.number, self.name, self.clock = scheduler, number, name, clock
        self.process: Process | None = None
        self.starts = 0
        self._crash_listeners: list[Callable[[Process], None]] = []

    def __repr__(self) -> str:
        return f"<node {self.name}>"

    @property
    def is_up(self) -> bool:
        """Whether a process runs, or is paused, on the node."""
        return self.process is not None

    def monotonic_ns(self) -> int:
        """Return the node's monotonic clock, in nanoseconds."""
        return self.clock.local_ns(self.scheduler.now_ns)

    def wall_ns(self) -> int:
        """Return the node's wall clock, in nanoseconds."""
        return self.clock.wall_ns(self.scheduler.now_ns)

    def set_drift(self, drift_ppm: int) -> None:
        """Set the drift of both clocks from now on: fast above 0, slow below."""
        self.clock.set_drift(drift_ppm, self.scheduler.now_ns)
        self.scheduler.note(self.name, f"clock drifts by {drift_ppm} ppm")

    def jump_wall(self, by_ns: int) -> None:
        """Step the wall clock, but not the monotonic one."""
        self.clock.jump_wall(by_ns)
        self.scheduler.note(self.name, f"wall clock jumps by {by_ns / 1e9:+.3f} s")

    def on_crash(self, listener: Callable[[Process], None]) -> None:
        """Call the listener with every crashed process, after its crash; listeners in the order of registration."""
        self._crash_listeners.append(listener)

    def start(self) -> Process:
        """Start a process on the node, which must be down; return it."""
        assert self.process is None, f"{self.name} runs already"
        self.starts += 1
        self.process = Process(self, self.starts)
        self.scheduler.note(self.name, f"starts (process {self.starts})")
        return self.process

    def crash(self) -> None:
        """Kill the process at once. The disk decides which writes survive."""
        process = self.running_process()
        self.process = None
        process.state = State.DEAD
        self.scheduler.note(self.name, "crashes")
        self.scheduler.remove_tasks(process)  # before the handles go, which may be all that keeps a task
        process.held.clear()
        for listener in self._crash_listeners:
            listener(process)

    def pause(self) -> None:
        """Pause the running process, as by SIGSTOP."""
        process = self.running_process()
        assert process.state is State.RUNNING, process
        process.state = State.PAUSED
        process.pauses += 1
        self.scheduler.note(self.name, "is paused")

    def resume(self) -> None:
        """Resume the paused process and schedule the work that was held back, in order."""
        process = self.running_process()
        assert process.state is State.PAUSED, process
        process.state = State.RUNNING
        self.scheduler.note(self.name, f"goes on, {len(process.held)} callbacks held back")
        self.scheduler.release(process.held)
        process.held = []

    def running_process(self) -> Process:
        """Return the process; the node must be up."""
        assert self.process is not None, f"{self.name} is down"
        return self.process
