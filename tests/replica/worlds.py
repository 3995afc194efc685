"""Raft groups and replicas in virtual time: `tests.runtime.drivers.World` with a `Replica` for each node."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Self, TypeVar

from raftlog.partitions.counters import Counters
from raftlog.partitions.deadline import Deadline
from raftlog.partitions.replica import Replica, ReplicaAppended
from raftlog.partitions.replica.read_queue import ReadQueue
from raftlog.partitions.results import ALL, Acks, Fetched
from raftlog.records import NewRecord, build_batch, read_records
from raftlog.runtime.config import DriverConfig
from raftlog.runtime.process.driver import Driver
from raftlog.runtime.replica.partition_replica import PartitionReplica
from raftlog.topic_config import TopicConfig
from tests.runtime.drivers import GROUP, SMALL, World

T = TypeVar("T")


def other_numbers(number: int) -> list[int]:
    return [each for each in (1, 2, 3) if each != number]


def ask(
    world: World, number: int, request: Callable[[PartitionReplica], "asyncio.Future[Any]"]
) -> "asyncio.Future[Any]":
    """Return the future answer of a node's replica, requested by the code of its process."""
    [future] = world.run_at(number, lambda: request(world.group(number)))
    assert isinstance(future, asyncio.Future)
    future.add_done_callback(lambda done: done.exception())  # not every caller asks
    return future


def wait_for_result(world: World, number: int, request: Callable[[PartitionReplica], "asyncio.Future[Any]"]) -> Any:
    future = ask(world, number, request)
    world.run_until(future.done)
    return future.result()


def base_offsets(world: World, number: int) -> list[int]:
    """Return the base offsets of a replica's segments."""
    return [segment.base_offset for segment in world.group(number).log.segments.segments]


def values_of(fetched: Fetched) -> list[bytes]:
    return [record.value or b"" for batch in fetched.batches for record in read_records(batch)]


class ReplicaWorld(World):
    """World of Raft groups with replicas, which are created again at each start."""

    def __init__(
        self,
        count: int = 3,
        topic: TopicConfig | None = None,
        config: DriverConfig = SMALL,
        voters: int | None = None,
        producers_max: int = 100_000,
    ) -> None:
        self._producers_max = producers_max
        self.topic = topic or TopicConfig()
        self._replicas: dict[int, tuple[Driver, Replica]] = {}
        self.queues: Mapping[int, ReadQueue] = {}
        """Queue of the reads after a start, for nodes that have one of the test."""
        super().__init__(count, config, voters)

    def __enter__(self) -> Self:
        return self

    def replica(self, number: int) -> Replica:
        """Return the replica of a node that is up."""
        driver = self.drivers[number]
        known = self._replicas.get(number)
        if known is not None and known[0] is driver:
            return known[1]
        replica = self._create_replica(number)
        driver.on_step = lambda group, ready: replica.on_step(ready)
        self._replicas[number] = driver, replica
        return replica

    def _create_replica(self, number: int) -> Replica:
        """Create a replica in the process of its node."""
        group = self.group(number)
        created: list[Replica] = []

        def create() -> None:
            queue = self.queues.get(number)
            replica = Replica("t/0", group, self.topic, Counters(), producers_max=self._producers_max, loading=queue)
            created.append(replica)

        self.run_at(number, create)
        return created[0]

    def lead(self) -> int:
        """Return the leader, once each node has its replica."""
        number = self.leader()
        for each in self.drivers:
            if GROUP.bytes in self.drivers[each].groups:
                self.replica(each)
        return number

    def append(
        self, number: int, *values: bytes, acks: Acks = ALL, batches: int = 1
    ) -> "asyncio.Future[ReplicaAppended]":
        """Append equal batches of these values in one call; return the future."""
        built = [build_batch([NewRecord(value, None, 1000) for value in values]) for _ in range(batches)]
        replica = self.replica(number)
        [future] = self.run_at(number, lambda: replica.append(built, acks))
        assert isinstance(future, asyncio.Future)
        future.add_done_callback(lambda done: done.exception())
        return future

    def appended(self, number: int, *values: bytes, acks: Acks = ALL) -> ReplicaAppended:
        future = self.append(number, *values, acks=acks)
        self.run_until(future.done)
        return future.result()

    def call(self, number: int, work: Callable[[Replica], Coroutine[Any, Any, T]]) -> "asyncio.Task[T]":
        """Start a coroutine on a replica in its process; return the task."""
        replica = self.replica(number)
        tasks: list[asyncio.Task[T]] = []

        def begin() -> None:
            tasks.append(asyncio.get_running_loop().create_task(work(replica)))

        self.nodes[number - 1].running_process().call_soon(begin)
        self.run(0.0001)
        tasks[0].add_done_callback(lambda done: done.cancelled() or done.exception())
        return tasks[0]

    def get(self, number: int, work: Callable[[Replica], Coroutine[Any, Any, T]]) -> T:
        task = self.call(number, work)
        self.run_until(task.done)
        return task.result()

    def deadline(self, number: int, seconds: float) -> Deadline:
        return Deadline(self.group_loop(number).time() + seconds)

    def group_loop(self, number: int) -> asyncio.AbstractEventLoop:
        return self.drivers[number].loop

    def fetch(
        self, number: int, offset: int, *, wait: float = 0.0, min_bytes: int = 0, max_bytes: int = 1 << 20
    ) -> "asyncio.Task[Fetched]":
        deadline = self.deadline(number, wait)
        return self.call(number, lambda replica: replica.fetch(offset, max_bytes, min_bytes, deadline))

    def fetch_and_wait(self, number: int, offset: int, *, wait: float = 0.0, min_bytes: int = 0) -> Fetched:
        task = self.fetch(number, offset, wait=wait, min_bytes=min_bytes)
        self.run_until(task.done)
        return task.result()

    def isolate(self, number: int) -> None:
        """Isolate the node from all others."""
        for other in other_numbers(number):
            self.cut(number, other)
            self.cut(other, number)

    def cut(self, source: int, target: int) -> None:
        self.network.cut(self.nodes[source - 1], self.nodes[target - 1])

    def wait_for_new_leader(self, old: int) -> int:
        """Wait until another node leads; return it."""
        self.run_until(lambda: any(number != old for number in self._leaders()))
        self.lead()
        return next(number for number in self._leaders() if number != old)


def all_values(world: ReplicaWorld, number: int) -> Sequence[bytes]:
    """Return all values that can be fetched."""
    offset = world.group(number).log_start_offset
    values: list[bytes] = []
    while found := values_of(world.fetch_and_wait(number, offset + len(values))):
        values.extend(found)
    return values
