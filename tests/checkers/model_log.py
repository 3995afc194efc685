"""A small model of the log and its clients that generates correct histories: no random choice breaks a guarantee.

Every operation is invoked, takes effect at one moment or never, and is completed; moments of different processes
interleave. An `ok` took effect, a `fail` never does, an `info` may have and, when it is a send or a commit, may still
do so later. Retention deletes records, consumers are moved, clients crash, and at the end one client reads everything.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from hypothesis import strategies as st

from jepsen.checkers import (
    Assign,
    Fetched,
    GroupOffsets,
    ListOffsets,
    OffsetRange,
    Op,
    Poll,
    Recorder,
    Send,
    Subscribe,
)
from jepsen.checkers.history import Payload
from raftlog.types import Offset, TopicPartition

PARTITIONS = (TopicPartition("t", 0), TopicPartition("t", 1))
PRODUCERS, CONSUMERS, WATCHERS, DRAIN = (1, 2, 3), (11, 12, 13), (21, 22), 31
GROUP = "g"
MILLISECOND = 1_000_000


class OutOfRange(Exception):  # what the model answers, not what it does wrong
    """The poll's position was removed by a trim."""


@dataclass
class Log:
    """Two partitions and one group; `views` has all pairs of log starts and ends that ever existed, in order."""

    values: dict[TopicPartition, list[int]] = field(default_factory=lambda: {p: [] for p in PARTITIONS})
    starts: dict[TopicPartition, int] = field(default_factory=lambda: dict.fromkeys(PARTITIONS, 0))
    committed: dict[TopicPartition, int] = field(default_factory=dict)
    views: list[tuple[OffsetRange, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.note_view()

    def note_view(self) -> None:
        self.views.append(tuple(OffsetRange(p, Offset(self.starts[p]), Offset(self.end(p))) for p in PARTITIONS))

    def end(self, partition: TopicPartition) -> int:
        return len(self.values[partition])

    def append(self, partition: TopicPartition, values: tuple[int, ...]) -> Send:
        base = self.end(partition)
        self.values[partition] += values
        self.note_view()
        return Send(partition, values, tuple(Offset(base + at) for at in range(len(values))))

    def trim(self, partition: TopicPartition, start: int) -> None:
        self.starts[partition] = max(self.starts[partition], start)
        self.note_view()

    def read(self, partition: TopicPartition, position: int, count: int) -> Fetched:
        if position < self.starts[partition]:
            raise OutOfRange
        values = tuple(self.values[partition][position : position + count])
        return Fetched(partition, tuple(Offset(position + at) for at in range(len(values))), values)

    def commit(self, offsets: GroupOffsets) -> GroupOffsets:
        """Commit without a generation, which can only raise offsets."""
        for partition, offset in offsets.offsets:
            assert offset is not None
            self.committed[partition] = max(self.committed.get(partition, 0), offset)
        return offsets

    def read_committed(self) -> GroupOffsets:
        known = {p: Offset(offset) for p, offset in self.committed.items()}
        return GroupOffsets(GROUP, tuple((p, known.get(p)) for p in PARTITIONS))


class Pending:
    """Operation in progress; `effect` executes it and returns the client's result."""

    def __init__(self, invocation: Op, effect: Callable[[], Payload]) -> None:
        self.invocation = invocation
        self.result: Payload = None
        self.took_effect = self.is_refused = False
        self._effect = effect

    @property
    def can_be_late(self) -> bool:
        return not self.took_effect and self.invocation.kind in ("send", "commit")

    def take_effect(self) -> None:
        if not self.took_effect and not self.is_refused:
            try:
                self.result = self._effect()
                self.took_effect = True
            except OutOfRange:
                self.is_refused = True


class Clients:
    """Generator of a history in `ops`: draws the steps of all processes."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.log = Log()
        self.ops: list[Op] = []
        self.now_ns = 0
        self.recorder = Recorder(lambda: self.now_ns, self.ops.append)
        self.pending: dict[int, Pending] = {}
        self.late: list[Pending] = []
        """Operations that ended unknown, and may still take effect."""
        self.positions: dict[int, dict[TopicPartition, int]] = {}
        self.subscribed: list[int] = []
        self.told: dict[int, int] = {}
        """The view that a watcher was shown last: it is never shown an older one."""
        self.next_value = 100

    def step(self) -> None:
        """Advance the time, and do one random action of the log, the group or a process."""
        self.now_ns += self.random.choice((0, 1, 5, 80)) * MILLISECOND
        draw = self.random.random()
        if draw < 0.03:
            partition = self.random.choice(PARTITIONS)
            self.log.trim(partition, self.random.randint(0, self.log.end(partition)))
        elif draw < 0.06 and self.late:
            self.late.pop(self.random.randrange(len(self.late))).take_effect()
        elif draw < 0.08 and self.subscribed:
            self.rebalance(self.random.choice(self.subscribed))
        elif draw < 0.09:
            self.recorder.nemesis("somebody is cut off")
        else:
            self.step_of(self.random.choice(PRODUCERS + CONSUMERS + WATCHERS))

    def step_of(self, process: int) -> None:
        """Begin an operation of a process, or let its pending one take effect, crash or complete."""
        pending = self.pending.get(process)
        if pending is None:
            self.begin(process)
        elif self.random.random() < 0.3:
            pending.take_effect()
        elif self.random.random() < 0.05:
            self.crash(process)
        else:
            self.complete(process, self.random.choices(("ok", "info", "fail"), (8, 1, 1))[0])

    # beginning

    def begin(self, process: int) -> None:
        if process in PRODUCERS:
            self.begin_send(process)
        elif process in WATCHERS:
            self.begin_list(process)
        elif process not in self.positions:
            self.random.choice((self.begin_assign, self.begin_assign, self.begin_subscribe))(process)
        else:
            kinds = (self.begin_poll, self.begin_commit, self.begin_committed, self.begin_assign)
            self.random.choices(kinds, (8, 2, 2, 1))[0](process)

    def begin_send(self, process: int) -> None:
        partition = self.random.choice(PARTITIONS)
        count = self.random.choice((1, 1, 1, 2, 3))
        values = tuple(range(self.next_value, self.next_value + count))
        self.next_value += count
        invocation = self.recorder.invoke(process, "send", Send(partition, values))
        self.pending[process] = Pending(invocation, lambda: self.log.append(partition, values))

    def begin_list(self, process: int, *, linearizable: bool | None = None) -> None:
        """Begin a list operation; one that is not linearizable may show an earlier state of the log."""
        current = self.random.random() < 0.5 if linearizable is None else linearizable

        def show() -> ListOffsets:
            newest = len(self.log.views) - 1
            shown = newest if current else self.random.randint(self.told.get(process, 0), newest)
            self.told[process] = shown
            return ListOffsets(self.log.views[shown], current)

        self.pending[process] = Pending(self.recorder.invoke(process, "list", ListOffsets((), current)), show)

    def begin_assign(self, process: int, partitions: tuple[TopicPartition, ...] = ()) -> None:
        asked = []
        for partition in partitions or self.random.choice((PARTITIONS, PARTITIONS[:1], PARTITIONS[1:])):
            somewhere = self.random.randint(self.log.starts[partition], self.log.end(partition))
            asked.append((partition, self.random.choice((None, self.log.starts[partition], somewhere))))

        def assign() -> None:
            self.subscribed = [each for each in self.subscribed if each != process]
            self.positions[process] = {
                p: self.random.choice((self.log.starts[p], self.log.end(p))) if offset is None else offset
                for p, offset in asked
            }

        positions = tuple((p, None if offset is None else Offset(offset)) for p, offset in asked)
        self.pending[process] = Pending(self.recorder.invoke(process, "assign", Assign(positions)), assign)

    def begin_subscribe(self, process: int) -> None:
        def subscribe() -> None:
            self.subscribed.append(process)
            self.rebalance(process)

        self.pending[process] = Pending(self.recorder.invoke(process, "subscribe", Subscribe(("t",))), subscribe)

    def rebalance(self, process: int) -> None:
        self.positions[process] = {
            p: max(self.log.committed.get(p, 0), self.log.starts[p]) for p in PARTITIONS if self.random.random() < 0.7
        }

    def begin_poll(self, process: int, *, count: int | None = None) -> None:
        counts = {p: self.random.randint(0, 4) if count is None else count for p in PARTITIONS}

        def poll() -> Poll:
            positions = self.positions[process]
            fetched = tuple(self.log.read(p, position, counts[p]) for p, position in positions.items())
            positions |= {f.partition: f.offsets[-1] + 1 for f in fetched if f.offsets}
            return Poll(fetched)

        self.pending[process] = Pending(self.recorder.invoke(process, "poll", Poll()), poll)

    def begin_commit(self, process: int) -> None:
        positions = self.positions[process].items()
        offsets = GroupOffsets(GROUP, tuple((p, Offset(self.random.randint(0, position))) for p, position in positions))
        invocation = self.recorder.invoke(process, "commit", offsets)
        self.pending[process] = Pending(invocation, lambda: self.log.commit(offsets))

    def begin_committed(self, process: int) -> None:
        invocation = self.recorder.invoke(process, "committed", GroupOffsets(GROUP))
        self.pending[process] = Pending(invocation, self.log.read_committed)

    # ending

    def complete(self, process: int, outcome: str) -> None:
        """Record the outcome of the pending operation; one with outcome `ok` takes effect at the latest now."""
        pending = self.pending.pop(process)
        if outcome == "ok":
            pending.take_effect()
        if pending.is_refused:
            self.recorder.fail(pending.invocation, "offset out of range")
            self.forget_consumer(process)
        elif outcome == "ok":
            self.recorder.ok(pending.invocation, pending.result)
        elif outcome == "fail" and not pending.took_effect:
            self.recorder.fail(pending.invocation, "refused")
        else:
            self.recorder.info(pending.invocation, "no answer")
            self.leave_open(pending)

    def crash(self, process: int) -> None:
        self.leave_open(self.pending.pop(process))
        self.forget_consumer(process)
        self.recorder.crash(process)

    def leave_open(self, pending: Pending) -> None:
        if pending.can_be_late and self.random.random() < 0.7:
            self.late.append(pending)

    def forget_consumer(self, process: int) -> None:
        self.positions.pop(process, None)
        self.subscribed = [each for each in self.subscribed if each != process]

    def drain(self) -> None:
        """Complete all operations; then one client lists the log and reads all remaining records."""
        for process in list(self.pending):
            self.complete(process, self.random.choice(("ok", "info")))
        for pending in self.late:
            pending.take_effect()
        self.run_operation(DRAIN, lambda: self.begin_list(DRAIN, linearizable=True))
        self.positions[DRAIN] = dict(self.log.starts)
        asked = Assign(tuple((p, Offset(start)) for p, start in self.log.starts.items()))
        self.recorder.ok(self.recorder.invoke(DRAIN, "assign", asked))
        while any(self.positions[DRAIN][p] < self.log.end(p) for p in PARTITIONS):
            self.run_operation(DRAIN, lambda: self.begin_poll(DRAIN, count=self.random.randint(1, 6)))

    def run_operation(self, process: int, begin: Callable[[], None]) -> None:
        self.now_ns += MILLISECOND
        begin()
        self.complete(process, "ok")


def generate_clean_history(seed: int, steps: int) -> list[Op]:
    """Generate the history of a seed; fewer steps give a prefix of its operations."""
    clients = Clients(seed)
    for _ in range(steps):
        clients.step()
    clients.drain()
    return clients.ops


CLEAN_HISTORIES = st.builds(generate_clean_history, seed=st.integers(0, 2**32), steps=st.integers(0, 300))
