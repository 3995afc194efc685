"""Appends to transactions through any broker, for clients that look for neither leaders nor coordinators.

    any broker → the partition's leader, by one hop → the coordinator adds the partition → appended

Calls have sequences: a call whose answer was lost is sent again, and the leader detects the duplicate. Called by API
servers as `Broker.leader.transaction_appends`, and by other nodes; the appends themselves are `LeaderAppends`."""

from collections.abc import Callable, Sequence
from typing import Final

from raftlog.errors import InvalidArgument, NotLeader, RaftlogError, UnknownTopic
from raftlog.partitions.deadline import Deadline, deadline_in
from raftlog.partitions.leader.appends import LeaderAppends
from raftlog.partitions.node import Node
from raftlog.partitions.node.requests import Request
from raftlog.partitions.produce.shares import PartitionChoice
from raftlog.partitions.produce.spreading import sequenced_partition, sequenced_results
from raftlog.partitions.replica import Replica, ReplicaAppended
from raftlog.partitions.results import ALL, Produced, ProducerSequence, RecordResult
from raftlog.partitions.routing.finder import Finder
from raftlog.partitions.routing.partition import Partition
from raftlog.partitions.routing.router import PartitionRouter, decode_appended, encode_appended
from raftlog.partitions.routing.topics import Topic, Topics
from raftlog.records import NewRecord
from raftlog.runtime.rpc.calls import Answer
from raftlog.types import Buffer, NodeId, intern_uuid

PRODUCE: Final = "data.produce_transaction"
_WAIT_MS_MAX: Final = 600_000


class TransactionAppends:
    """Appends to transactions; one instance per process."""

    def __init__(
        self,
        node: Node,
        topics: Topics,
        finder: Finder,
        router: PartitionRouter,
        appends: LeaderAppends,
        check_ready: Callable[[], None],
    ) -> None:
        """Begin to serve appends in transactions that other brokers forward."""
        self._topics, self._finder, self._router, self._appends = topics, finder, router, appends
        self._check_ready = check_ready
        node.on_request(PRODUCE, self._serve)

    async def append_batches(
        self, topic: str, partition: int, body: Buffer, *, transactional_id: str, deadline: Deadline
    ) -> Produced:
        """Append batches of one producer to its transaction, which the partition joins; all or nothing.

        Raises `InvalidBatch`, `RecordTooLarge`, `InvalidProducerMapping`, `ProducerFenced`, `ConcurrentTransactions`
        while the last transaction is ending, and the errors of other appends."""
        found = await self._writable_topic(topic, deadline)
        target = await self._finder.partition_of(found, partition, deadline)
        return await self._append(found, target, body, transactional_id, deadline)

    async def append_records(
        self,
        topic: str,
        partition: PartitionChoice,
        records: Sequence[NewRecord],
        producer: ProducerSequence,
        *,
        transactional_id: str,
        deadline: Deadline,
    ) -> list[RecordResult]:
        """Append records of one partition to the producer's transaction as one batch; return a result for each.

        Raises errors of the whole call; those of the append are in the results."""
        found = await self._writable_topic(topic, deadline)
        number = sequenced_partition(found, partition)
        try:
            target = await self._finder.partition_of(found, number, deadline)
            batch = await target.build_sequenced(records, producer, is_transactional=True)
            done = await self._append(found, target, batch, transactional_id, deadline)
        except RaftlogError as error:
            return [RecordResult(number, None, error) for _ in records]
        return sequenced_results(number, len(records), done)

    async def _writable_topic(self, name: str, deadline: Deadline) -> Topic:
        """Return a topic to which clients may write.

        Raises `UnknownTopic`, and errors while the broker is not ready."""
        self._check_ready()
        return await self._finder.writable_topic(name, deadline)

    async def _append(
        self, topic: Topic, target: Partition, body: Buffer, transactional_id: str, deadline: Deadline
    ) -> Produced:
        """Append at the leader, here or on another node; look up the leader again until the deadline."""

        async def append_here(_: Replica) -> ReplicaAppended:
            """Append to the replica that leads in this process."""
            return await self._append_here(topic, target.number, body, transactional_id, deadline)

        async def forward(node: NodeId) -> ReplicaAppended:
            """Append through the node that leads the partition."""
            return await self._forward(node, target, body, transactional_id, deadline)

        done = await self._router.call(target, deadline, append_here, forward, only_reads=False)
        return Produced(*done, topic_id=target.topic_id)

    async def _append_here(
        self, topic: Topic, number: int, body: Buffer, transactional_id: str, deadline: Deadline
    ) -> ReplicaAppended:
        """Append to a partition that this broker leads; the partition joins the transaction.

        Raises the error of the append."""
        if topic.is_deleted:
            raise UnknownTopic(f"topic {topic.name!r} was deleted; nothing was appended")
        append = self._appends.begin(topic.name, number, body, ALL, deadline, transactional_id, joins=True)
        [outcome] = await self._appends.wait_for_outcomes([append])
        if isinstance(outcome, RaftlogError):
            raise outcome
        return outcome

    async def _forward(
        self, node: NodeId, target: Partition, body: Buffer, transactional_id: str, deadline: Deadline
    ) -> ReplicaAppended:
        """Send the append to the node that leads the partition; return its result."""
        header = {"transactional_id": transactional_id}
        answer = await self._router.read(node, PRODUCE, target, header, deadline, (body,))
        return decode_appended(answer)

    async def _serve(self, request: Request) -> Answer:
        """Append batches that another broker received."""
        match request.header:
            case [bytes(topic_id), int(number), int(wait_ms), {"transactional_id": str(transactional_id)}] if (
                len(topic_id) == 16 and len(request.payload) == 1
            ):
                deadline = deadline_in(min(max(wait_ms, 0), _WAIT_MS_MAX))
            case _:
                raise InvalidArgument(
                    f"the request {PRODUCE!r} cannot be decoded; check that the other broker runs a compatible release"
                )
        topic = self._topics.by_id(intern_uuid(topic_id))
        if topic is None or not 0 <= number < len(topic.partitions):
            raise NotLeader(f"this broker has no replica of partition {number} of the topic {topic_id.hex()}")
        return encode_appended(await self._append_here(topic, number, request.payload[0], transactional_id, deadline))
