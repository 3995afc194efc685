"""Base of all clients of simulated brokers, which send requests to any broker, with a timeout, and record them.

A client is outside of the machines; its call runs as code of the called broker, as if it had come by HTTP. A client
gives up a little after the deadline of its request, regardless of the broker; such an outcome is unknown. Topics are
distinguished by their uuid in the called broker: `orders#1a2b3c4d`."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from functools import partial
from random import Random
from typing import Any, Final, NamedTuple
from uuid import UUID

from jepsen.checkers import Op
from jepsen.simulation.brokers.cluster import BrokerCluster, Machine
from jepsen.simulation.network.links import MILLISECOND_NS
from jepsen.simulation.verdicts import PropertyBroken
from raftlog.errors import RaftlogError
from raftlog.partitions.broker import Broker
from raftlog.partitions.controller.machine import GroupName
from raftlog.partitions.deadline import Deadline, deadline_in
from raftlog.runtime.journal.operations import GroupKey
from raftlog.types import TopicPartition

TIMEOUTS_MS: Final = (300, 800, 3_000)
"""Timeouts of requests, in milliseconds, drawn for each request."""
SLACK_MS: Final = 1_000
"""Time, in milliseconds, from a request's deadline until its client gives up."""
ANSWER_MS: Final = 4_000
"""Time after the deadline, by the broker's own clock, within which a working broker answers: it looks for a leader
for a while even after a shorter deadline, and waits for an answer that another broker has sent."""
DEADLINE_STRETCH: Final = 1.5
"""Upper bound on the factor by which a clock is slow."""
RETRY_NS: Final = 80 * MILLISECOND_NS


class KnownTopic(NamedTuple):
    """Topic in the metadata of a broker."""

    name: str
    topic_id: UUID
    partitions: int
    is_compacted: bool = False

    def key(self, number: int) -> GroupKey:
        """Return the key of a partition's Raft group."""
        return GroupName(self.topic_id, number).group_id.bytes

    def partition(self, number: int) -> TopicPartition:
        """Return the partition's name in the history, which contains the topic id, since topics share names."""
        return TopicPartition(f"{self.name}#{self.topic_id.hex[:8]}", number)


class Attempt:
    """Request of a simulated client to one broker.

    `op` is set once the request is in the history, `has_ended` once the client no longer waits for the answer, and
    `is_answered` once the broker has answered."""

    __slots__ = ("deadline_ms", "has_ended", "is_answered", "machine", "op", "pauses", "process")

    def __init__(self, machine: Machine, deadline_ms: int) -> None:
        self.machine, self.deadline_ms = machine, deadline_ms
        self.op: Op | None = None
        self.has_ended = self.is_answered = False
        self.process = machine.node.process
        self.pauses = self.process.pauses if self.process is not None and machine.is_running else None

    def is_interrupted(self) -> bool:
        """Return whether the broker's process ended or was paused since the request was sent."""
        process = self.machine.node.process
        return process is None or process is not self.process or process.pauses != self.pauses

    def deadline(self) -> Deadline:
        """Return the deadline on the clock of the broker that serves the request."""
        return deadline_in(self.deadline_ms)


Operation = Callable[[Attempt, Broker], Coroutine[Any, Any, None]]


class Client(ABC):
    """Base of simulated clients with one request at a time."""

    def __init__(self, cluster: BrokerCluster, random: Random) -> None:
        self.cluster, self.random = cluster, random
        self.loop, self.recorder, self.watch = cluster.loop, cluster.recorder, cluster.watch
        self.process = cluster.new_process()
        self.is_stopped = False
        self.timeouts_ms: tuple[int, ...] = TIMEOUTS_MS
        self._machine: Machine | None = None

    @abstractmethod
    def step(self) -> None:
        """Begin one request with `ask`."""

    def step_later(self, delay_ns: int) -> None:
        """Schedule the next step after a delay."""
        self.loop.call_at_ns(self.loop.now_ns + delay_ns, self._step_unless_stopped)

    def _step_unless_stopped(self) -> None:
        """Begin a request, unless the client has been stopped."""
        if not self.is_stopped:
            self.step()

    # asking

    def draw_machine(self) -> Machine:
        """Return a machine: the same one for a while, and then a random one."""
        if self._machine is None or self.random.random() < 0.3:
            self._machine = self.random.choice(list(self.cluster.machines.values()))
        return self._machine

    def ask(self, operation: Operation) -> None:
        """Run `operation` in the process of any broker, as one request."""
        attempt = Attempt(self.draw_machine(), self.random.choice(self.timeouts_ms))
        due_ns = self.loop.now_ns + (attempt.deadline_ms + SLACK_MS) * MILLISECOND_NS
        if attempt.machine.spawn(partial(self._execute, attempt, operation), type(self).__name__):
            self.loop.call_at_ns(due_ns, self._give_up, attempt)
            bound_ms = int(attempt.deadline_ms * DEADLINE_STRETCH) + ANSWER_MS
            self.loop.call_at_ns(self.loop.now_ns + bound_ms * MILLISECOND_NS, self._check_answered, attempt, operation)
        else:
            self._machine = None
            self.step_later(RETRY_NS)

    async def _execute(self, attempt: Attempt, operation: Operation, broker: Broker) -> None:
        """Run the operation in the broker's process, unless the attempt is over."""
        if not attempt.has_ended:
            await operation(attempt, broker)
        attempt.is_answered = True

    def _check_answered(self, attempt: Attempt, operation: Operation) -> None:
        """Raise `PropertyBroken` if a broker that was running all the time has not answered."""
        if not attempt.is_answered and not attempt.is_interrupted():
            description = getattr(operation, "__name__", type(self).__name__).strip("_")
            numbers = {"broker": attempt.machine.name, "request": description, "deadline_ms": attempt.deadline_ms}
            raise PropertyBroken("no-answer", numbers)

    def _give_up(self, attempt: Attempt) -> None:
        """Record an unknown outcome unless the attempt is over, and schedule the next request."""
        if not attempt.has_ended:
            attempt.has_ended = True
            self._machine = None
            if attempt.op is not None:
                self.recorder.info(attempt.op, "no answer")
            self.on_timeout(attempt)
            self.step_later(RETRY_NS)

    def on_timeout(self, attempt: Attempt) -> None:  # noqa: B027  # optional hook
        """Update the client after a request had no answer in time."""

    # the end of a request

    def is_answer_received(self, attempt: Attempt) -> bool:
        """Return whether the client receives the answer: it has not given up, and the answer is not lost."""
        return not attempt.has_ended and self.random.random() >= self.cluster.options.answer_loss

    def finish(self, attempt: Attempt, pause_ns: int) -> None:
        """End a recorded request, and schedule the next one."""
        attempt.has_ended = True
        self.step_later(pause_ns)

    def record_failure(self, attempt: Attempt, error: RaftlogError) -> None:
        """Record that the request ended with an error."""
        if attempt.op is not None:
            ended = self.recorder.fail if error.outcome == "failed" else self.recorder.info
            ended(attempt.op, type(error).__name__)
        self.finish(attempt, RETRY_NS)


def known_topic(broker: Broker, name: str) -> KnownTopic | None:
    """Return the topic in this broker's present metadata; None if it is unknown."""
    state = broker.metadata.state
    if not state.has_topic(name):
        return None
    topic = state.topic(name)
    is_compacted = "compact" in dict(topic.configs).get("cleanup.policy", "")
    return KnownTopic(name, topic.topic_id, topic.partition_count, is_compacted)
