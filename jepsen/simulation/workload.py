"""Clients: producers that write unique values, readers that follow the log on any replica.

They are outside of the machines and call the replicas' own methods, each call in the process of the replica. A request
to a machine that is down fails definitely; a request without an answer before its deadline has an unknown outcome and
is never sent again, because a log without idempotence might then store it twice. Everything is recorded.

Clients use callbacks instead of tasks, which is cheaper: a run makes thousands of requests.
"""

import asyncio
from abc import ABC, abstractmethod
from functools import partial
from random import Random
from typing import Final

from jepsen.checkers import Assign, Fetched, ListOffsets, OffsetRange, Op, Poll, Send
from jepsen.checkers.history import ASSIGN, LIST, POLL, SEND
from jepsen.simulation.cluster import Cluster, GroupPlan
from jepsen.simulation.machine import Machine
from jepsen.simulation.network.links import MILLISECOND_NS
from jepsen.simulation.properties import Replica
from raftlog.errors import CorruptBatch, OffsetOutOfRange, RaftlogError
from raftlog.raft import ReplicaId, Role
from raftlog.records import build_batch, read_records
from raftlog.runtime.process.driver import Driver
from raftlog.runtime.replica.partition_replica import Committed
from raftlog.types import Index, Offset

TIMEOUTS_MS: Final = (300, 600, 3_000)
"""Timeouts of clients, in milliseconds, drawn for each request."""
RETRY_NS: Final = 60 * MILLISECOND_NS
POLL_NS: Final = 250 * MILLISECOND_NS
POLL_BYTES: Final = 8192
VALUES_PER_CLIENT: Final = 1_000_000


class Request:
    """Pending request of a simulated client.

    `has_ended` is true once its outcome is recorded; later events are ignored."""

    __slots__ = ("has_ended", "machine", "op")

    def __init__(self, op: Op, machine: Machine) -> None:
        self.op, self.machine = op, machine
        self.has_ended = False


class Client(ABC):
    """Base of simulated producers and readers, for one Raft group, with one request at a time."""

    def __init__(self, cluster: Cluster, plan: GroupPlan, random: Random) -> None:
        self.cluster, self.plan, self.random = cluster, plan, random
        self.loop, self.recorder = cluster.loop, cluster.recorder
        self.process = cluster.new_process()
        self.is_stopped = False

    def step_later(self, delay_ns: int) -> None:
        """Schedule the next step after a delay."""
        self.loop.call_at_ns(self.loop.now_ns + delay_ns, self._step_unless_stopped)

    def _step_unless_stopped(self) -> None:
        """Begin a request, unless the client has been stopped."""
        if not self.is_stopped:
            self.step()

    @abstractmethod
    def step(self) -> None:
        """Begin one request; its end calls `step_later`."""

    def draw_machine(self) -> Machine:
        """Return a random machine, up or down."""
        return self.random.choice(list(self.cluster.machines.values()))

    def begin(self, op: Op, machine: Machine) -> Request:
        """Return the request of a recorded operation, and schedule its deadline."""
        request = Request(op, machine)
        timeout_ns = self.random.choice(TIMEOUTS_MS) * MILLISECOND_NS
        self.loop.call_at_ns(self.loop.now_ns + timeout_ns, self._on_deadline, request)
        return request

    def _on_deadline(self, request: Request) -> None:
        """Record that the outcome is unknown if the request has no answer yet, and step on."""
        if not request.has_ended:
            request.has_ended = True
            self.recorder.info(request.op, "no answer")
            self.on_timeout()
            self.step_later(RETRY_NS)

    def on_timeout(self) -> None:  # noqa: B027  # optional hook
        """Prepare the next request after one had no answer in time."""

    def record_failure(self, request: Request, error: RaftlogError) -> None:
        """Record the error, which says whether the operation failed or its outcome is unknown."""
        request.has_ended = True
        ended = self.recorder.fail if error.outcome == "failed" else self.recorder.info
        ended(request.op, type(error).__name__)


class Producer(Client):
    """Producer with one request at a time, sent to the presumed leader."""

    def __init__(self, cluster: Cluster, plan: GroupPlan, random: Random) -> None:
        super().__init__(cluster, plan, random)
        self.acknowledged = 0
        self.acknowledged_ns = 0
        """Time of the latest acknowledgement."""
        self._presumed_leader: Machine | None = None
        self._next_value = self.process * VALUES_PER_CLIENT

    def step(self) -> None:
        """Send one or two new batches to the presumed leader, or to a random machine without one."""
        machine = self._presumed_leader or self.draw_machine()
        counts = [self.random.randint(1, 3) for _ in range(self.random.choice((1, 1, 2)))]
        values = tuple(range(self._next_value, self._next_value + sum(counts)))
        self._next_value += len(values)
        request = self.begin(self.recorder.invoke(self.process, SEND, Send(self.plan.partition, values)), machine)
        if machine.group(self.plan.key) is None or not machine.call(partial(self._propose, request, counts, values)):
            self._presumed_leader = None
            request.has_ended = True
            self.recorder.fail(request.op, f"{machine.name} is down")
            self.step_later(RETRY_NS)

    def on_timeout(self) -> None:  # optional hook
        """Forget the presumed leader."""
        self._presumed_leader = None

    def _propose(self, request: Request, counts: list[int], values: tuple[int, ...], driver: Driver) -> None:
        """Propose batches with `counts` records each in the process that received the request."""
        group = driver.groups.get(self.plan.key)
        if request.has_ended or group is None:
            return
        batches = []
        at = 0
        for count in counts:
            padding = bytes(self.random.randint(0, self.cluster.options.value_bytes))
            records = [b"%d " % value + padding for value in values[at : at + count]]
            batches.append(build_batch(records, now_ms=request.machine.wall_ms()))
            at += count
        asked = Replica(request.machine.me, request.machine.node.starts)
        group.propose(batches).add_done_callback(partial(self._on_answer, request, asked))

    def _on_answer(self, request: Request, asked: Replica, future: "asyncio.Future[Committed]") -> None:
        """Check an acknowledgement, and record the answer unless it is lost on its way to the client."""
        error = future.exception()
        if error is None:
            self._check_acknowledgement(request, asked, future.result())
        if request.has_ended:
            return
        if self.random.random() < self.cluster.options.answer_loss:
            return  # the deadline will come
        if error is None:
            self._record_success(request, future.result())
        elif isinstance(error, RaftlogError):
            self.record_failure(request, error)
            leader = getattr(error, "leader", None)
            self._presumed_leader = self.cluster.machine_of(leader) if isinstance(leader, ReplicaId) else None
            self.step_later(RETRY_NS)
        else:
            raise error

    def _check_acknowledgement(self, request: Request, asked: Replica, done: Committed) -> None:
        """Check that the acknowledged entries are committed, and visible at the leader."""
        group = request.machine.group(self.plan.key)
        if group is not None:
            offsets = done.base_offset, done.next_offset
            visible = group.high_watermark if group.core.role is Role.LEADER else None
            self.plan.properties.observe_acknowledgement(
                asked, done.term, done.first_index, done.last_index, offsets, visible
            )

    def _record_success(self, request: Request, done: Committed) -> None:
        """Record the offsets of an acknowledged request, and schedule the next one."""
        request.has_ended = True
        payload = request.op.payload
        assert isinstance(payload, Send), payload
        offsets = tuple(Offset(done.base_offset + at) for at in range(len(payload.values)))
        self.recorder.ok(request.op, payload._replace(offsets=offsets))
        self.acknowledged += len(offsets)
        self.acknowledged_ns = self.loop.now_ns
        self._presumed_leader = request.machine
        self.step_later(int(self.random.expovariate(1.0) * self.cluster.options.pause_ms * MILLISECOND_NS))


class Reader(Client):
    """Reader that reads on from its position; at times it changes to another replica, or lists the offsets."""

    def __init__(self, cluster: Cluster, plan: GroupPlan, random: Random) -> None:
        super().__init__(cluster, plan, random)
        self.position = Offset(0)
        self._machine = self.draw_machine()
        self._assign(self.position)

    def on_timeout(self) -> None:  # optional hook
        """Change to a random machine."""
        self._machine = self.draw_machine()

    def _assign(self, offset: Offset) -> None:
        """Set the position to `offset`, and record that."""
        self.position = offset
        op = self.recorder.invoke(self.process, ASSIGN, Assign(((self.plan.partition, offset),)))
        self.recorder.ok(op)
        self.plan.readers_at[self.process] = offset

    def step(self) -> None:
        """Read from the present machine, at times from another one, or query the end of the log."""
        if self.random.random() < 0.15:
            self._machine = self.draw_machine()
        machine = self._machine
        if machine.group(self.plan.key) is None:
            self._machine = self.draw_machine()
            self.step_later(RETRY_NS)
        elif self.random.random() < 0.25:
            machine = self._any_leader() or machine
            op = self.recorder.invoke(self.process, LIST, ListOffsets(linearizable=True))
            machine.call(partial(self._list, self.begin(op, machine)))
        else:
            request = self.begin(self.recorder.invoke(self.process, POLL, Poll()), machine)
            machine.call(partial(self._poll, request))

    def _any_leader(self) -> Machine | None:
        """Return the machine with the leader of the oldest term; that leader may be deposed. None without a leader."""
        leading = [
            (group.core.term, machine.node.number, machine)
            for machine, group in self.cluster.replicas(self.plan)
            if group.core.role is Role.LEADER
        ]
        return min(leading)[2] if leading else None

    def _poll(self, request: Request, driver: Driver) -> None:
        """Read records from the replica in this driver's process, and record them.

        Below the log start, go on from there; after a corrupt batch, change to another machine."""
        group = driver.groups.get(self.plan.key)
        if request.has_ended:
            return
        first = Offset(0)
        try:
            batches = [] if group is None else group.read(self.position, POLL_BYTES)
        except OffsetOutOfRange as error:
            batches, first = [], error.first
        except CorruptBatch as error:
            self.record_failure(request, error)
            self._machine = self.draw_machine()
            self.step_later(RETRY_NS)
            return
        request.has_ended = True
        fetched = decode(self.plan, batches, self.position)
        self.recorder.ok(request.op, Poll((fetched,) if fetched.offsets else ()))
        if fetched.offsets:
            self.position = Offset(fetched.offsets[-1] + 1)
            self.plan.readers_at[self.process] = self.position
        elif first > self.position:
            self._assign(first)
        self.step_later(int(self.random.uniform(0.2, 1) * POLL_NS))

    def _list(self, request: Request, driver: Driver) -> None:
        """Request a read index from the replica in this driver's process."""
        group = driver.groups.get(self.plan.key)
        if group is not None and not request.has_ended:
            group.read_index().add_done_callback(partial(self._on_list, request))

    def _on_list(self, request: Request, future: "asyncio.Future[Index]") -> None:
        """Record the high watermark as the log's end once the read index is confirmed, or the error."""
        error = future.exception()
        group = request.machine.group(self.plan.key)
        if request.has_ended:
            return
        if isinstance(error, RaftlogError):
            self.record_failure(request, error)
        elif error is not None:
            raise error
        elif group is not None:
            request.has_ended = True
            ends = OffsetRange(self.plan.partition, Offset(0), group.high_watermark)
            self.recorder.ok(request.op, ListOffsets((ends,), linearizable=True))
        self.step_later(POLL_NS)


def decode(plan: GroupPlan, batches: list[memoryview], position: Offset) -> Fetched:
    """Return offsets and values of a read from `position` on; a read begins with a whole batch."""
    offsets, values = [], []
    for batch in batches:
        for record in read_records(batch):
            if record.offset >= position:
                offsets.append(Offset(record.offset))
                values.append(int((record.value or b"0").split(b" ", 1)[0]))
    return Fetched(plan.partition, tuple(offsets), tuple(values))


class Workload:
    """All clients of a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        options = cluster.options
        self.producers: dict[int, list[Producer]] = {}
        self.readers: list[Reader] = []
        for plan in cluster.groups:
            self.producers[plan.number] = [
                Producer(cluster, plan, cluster.random(f"producer {plan.number} {number}"))
                for number in range(options.producers)
            ]
            self.readers += [
                Reader(cluster, plan, cluster.random(f"reader {plan.number} {number}"))
                for number in range(options.readers)
            ]

    def start(self) -> None:
        """Start all clients within half a second."""
        for client in self._clients():
            client.step_later(client.random.randint(0, 500) * MILLISECOND_NS)

    def stop_producers(self) -> None:
        """Let the producers begin no further request."""
        for producers in self.producers.values():
            for producer in producers:
                producer.is_stopped = True

    def stop(self) -> None:
        """Let no client begin a further request."""
        for client in self._clients():
            client.is_stopped = True

    def resume(self) -> None:
        """Resume all clients after `stop`."""
        for client in self._clients():
            client.is_stopped = False
            client.step_later(client.random.randint(0, 500) * MILLISECOND_NS)

    def acknowledged(self) -> int:
        """Return the number of acknowledged records."""
        return sum(producer.acknowledged for producers in self.producers.values() for producer in producers)

    def _clients(self) -> list[Client]:
        """Return all producers and readers."""
        producers = [producer for each in self.producers.values() for producer in each]
        return [*producers, *self.readers]
