"""Transactional producers over Kafka's protocol: atomic writes to partitions, and a read-process-write chain.

Every request is repeated until its outcome is known or the client's patience ends. Two producers share each
transactional id, so each fences the other. Transactions are committed, aborted, left open, or held for longer than
their timeout. Some batches to one partition are sent together, before the first one is answered, as clients do; then
those that failed are sent again in order, and the code of a duplicate counts as a success. A client that did not try to
commit records a definite failure, whatever the answers were."""

import asyncio
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from jepsen.checkers import Append, Consumed, OffsetsRead, Op, Transaction
from jepsen.checkers.history import TXN
from jepsen.simulation.brokers.cluster import BrokerCluster
from jepsen.simulation.brokers.kafka.readers import committed_batches, fetch_committed
from jepsen.simulation.brokers.kafka.roles import ASK_S, PARTITIONS, RETRY_S, TOPIC, KafkaRole, code_in
from jepsen.simulation.brokers.kafka.wire_client import NoAnswer
from jepsen.simulation.brokers.workload.clients import KnownTopic
from jepsen.simulation.brokers.workload.readers import decode
from jepsen.simulation.brokers.workload.values import VALUES_PER_CLIENT
from raftlog.api.kafka.api import ApiKey
from raftlog.api.kafka.error_codes import ErrorCode
from raftlog.api.kafka.wire import schemas
from raftlog.records import BatchBuilder, NewRecord
from raftlog.records.header import CRC_START, TRANSACTIONAL_BIT, batch_crc
from raftlog.types import Offset, TopicPartition

GROUP: Final = "kafka-chain"
TIMEOUT_MS: Final = 3_000
PATIENCE_S: Final = 8.0
"""Seconds for one request with all its retries."""
ABORTS, LEFT_OPEN, STALLS, PIPELINED = 0.15, 0.06, 0.04, 0.5
INPUT, OUTPUT = 0, 1
"""Partitions that a chain reads and writes."""
CHAIN_RECORDS: Final = 3
_TRANSACTION_KEY: Final = 1
_RETRIED: Final = frozenset(
    (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
    )
)
_DONE: Final = (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
_CRC_AT: Final = 17


class Refused(Exception):
    """A request of a transaction was refused definitely, or the client has given up."""


class TransactionalRole(KafkaRole):
    """Client with a transactional id, which it shares with another client."""

    def __init__(self, cluster: BrokerCluster, name: str, transactional_id: str) -> None:
        super().__init__(cluster, name)
        self.committed = 0
        self._id = transactional_id
        self._identity: tuple[int, int] | None = None
        self._coordinators: dict[tuple[str, int], str] = {}
        self._sequences: dict[int, int] = {}
        self._added: set[int] = set()
        self._next_value = self.process * VALUES_PER_CLIENT
        self._is_committing = False

    async def step(self) -> None:
        """Get a producer id and epoch, or execute a transaction."""
        topic = self.topic()
        if topic is None:
            await asyncio.sleep(RETRY_S)
            return
        try:
            if self._identity is None:
                await asyncio.sleep(self.random.uniform(0, 2) * TIMEOUT_MS / 1000)
                await self._initialize()
            else:
                await self.transact(topic)
        except Refused:
            self._identity = None
        await asyncio.sleep(self.random.expovariate(1.0) * self.cluster.options.pause_ms / 1000)

    @abstractmethod
    async def transact(self, topic: KnownTopic) -> None:
        """Execute a transaction. Raises `Refused` if the producer needs a new id and epoch."""

    # requests

    async def _initialize(self) -> None:
        """Get a producer id and epoch for the transactional id, which fences the other client. Raises `Refused`."""
        request = schemas.request_class(ApiKey.INIT_PRODUCER_ID)
        wanted = request(transactional_id=self._id, transaction_timeout_ms=TIMEOUT_MS)
        answer = await self._ask_coordinator(self._id, _TRANSACTION_KEY, wanted, 1)
        self._identity = answer.producer_id, answer.producer_epoch
        self._sequences.clear()

    async def _ask_coordinator(self, key: str, key_type: int, request: Any, version: int) -> Any:
        """Send a request to the coordinator of a key until it is done; return the answer. Raises `Refused`."""

        async def ask() -> Any:
            """Send the request to the known coordinator, or first find it. Raises `NoAnswer`."""
            host = self._coordinators.get((key, key_type))
            if host is None:
                finder = schemas.request_class(ApiKey.FIND_COORDINATOR)
                found = await self.client.ask(self.client.any_host(), finder(key=key, key_type=key_type), 1, ASK_S)
                if code_in(found.error_code) is not ErrorCode.NONE:
                    raise NoAnswer("no coordinator")
                host = self._coordinators[key, key_type] = found.host
            return await self.client.ask(host, request, version, 2 * ASK_S)

        return await self._ask_until_done(ask, lambda: self._coordinators.pop((key, key_type), None))

    async def _ask_until_done(self, ask: Callable[[], Awaitable[Any]], forget_broker: Callable[[], object]) -> Any:
        """Repeat a request until its answer has no error, or reports a duplicate; return the answer.

        `forget_broker` is called before a retry, unless the error is CONCURRENT_TRANSACTIONS, so that the retry
        finds the coordinator or leader anew. Raises `Refused` for an error that is not retried, or after
        `PATIENCE_S`."""
        until_ns = self.loop.now_ns + int(PATIENCE_S * 1e9)
        while self.loop.now_ns < until_ns:
            try:
                answer = await ask()
            except NoAnswer:
                forget_broker()
                await asyncio.sleep(RETRY_S)
                continue
            code = _code_of(answer)
            if code in _DONE:
                return answer
            if code not in _RETRIED:
                raise Refused(code.name)
            if code is not ErrorCode.CONCURRENT_TRANSACTIONS:
                forget_broker()
            await asyncio.sleep(RETRY_S)
        raise Refused("out of patience")

    # steps of a transaction

    def next_value(self) -> int:
        """Return the next unique value of this client."""
        self._next_value += 1
        return self._next_value

    async def append(self, topic: KnownTopic, append: Append) -> Append:
        """Add the partition to the transaction if necessary, and append a record; return it with its offset."""
        assert self._identity is not None, "no producer id"
        number = append.partition.partition
        if number not in self._added:
            await self._add_partition(number)
        sequence = self._sequences.get(number, 0)
        batch = self._build_batch(append, sequence)
        answer = await self._produce_until_done(number, batch)
        self._sequences[number] = sequence + 1
        return self._record_append(topic, append, answer)

    async def append_together(self, topic: KnownTopic, appends: Sequence[Append]) -> list[Append]:
        """Append records to one partition, which are sent before any of them is answered; return them with offsets."""
        number = appends[0].partition.partition
        if number not in self._added:
            await self._add_partition(number)
        first = self._sequences.get(number, 0)
        batches = [self._build_batch(append, first + at) for at, append in enumerate(appends)]
        answers = await asyncio.gather(*(self._produce_once(number, batch) for batch in batches))
        done: list[Append] = []
        for append, batch, answer in zip(appends, batches, answers, strict=True):
            found = answer if answer is not None else await self._produce_until_done(number, batch)
            done.append(self._record_append(topic, append, found))
        self._sequences[number] = first + len(appends)
        return done

    async def _produce_once(self, number: int, batch: bytes) -> Any | None:
        """Send a batch once; return the answer, or None unless it was stored."""
        try:
            answer = await self._produce(number, batch)
        except NoAnswer:
            return None
        return answer if _code_of(answer) in _DONE else None

    async def _produce_until_done(self, number: int, batch: bytes) -> Any:
        """Send a batch until it is stored; return the answer. Raises `Refused`."""
        return await self._ask_until_done(
            lambda: self._produce(number, batch), lambda: self.client.forget(TOPIC, number)
        )

    async def _produce(self, number: int, batch: bytes) -> Any:
        """Send a batch to the partition's leader; return the answer. Raises `NoAnswer`."""
        leader = await self.leader(number)
        request = schemas.request_class(ApiKey.PRODUCE)
        row = request.TopicProduceData.PartitionProduceData(index=number, records=batch)
        data = request.TopicProduceData(name=TOPIC, partition_data=[row])
        wanted = request(transactional_id=self._id, acks=-1, timeout_ms=1_000, topic_data=[data])
        return await self.client.ask(leader.host, wanted, 8, ASK_S)

    def _record_append(self, topic: KnownTopic, append: Append, answer: Any) -> Append:
        """Return a stored record with the offset in the answer, which a duplicate's lacks."""
        if _code_of(answer) is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            return append
        offset = Offset(answer.responses[0].partition_responses[0].base_offset)
        key = topic.key(append.partition.partition)
        self.watch.observe_acknowledgement(key, str(append.partition), offset, Offset(offset + 1))
        return append._replace(offset=offset)

    def _build_batch(self, append: Append, sequence: int) -> bytes:
        """Return a transactional batch with the one record of the append."""
        assert self._identity is not None, "no producer id"
        builder = BatchBuilder(producer_id=self._identity[0], producer_epoch=self._identity[1], base_sequence=sequence)
        builder.append(NewRecord(f"{append.value} ".encode()), self.loop.now_ns // 1_000_000)
        batch = builder.build()
        batch[CRC_START + 1] |= TRANSACTIONAL_BIT
        batch[_CRC_AT : _CRC_AT + 4] = batch_crc(batch).to_bytes(4, "big")
        return bytes(batch)

    async def _add_partition(self, number: int) -> None:
        """Add the partition to the transaction at the coordinator. Raises `Refused`."""
        request = schemas.request_class(ApiKey.ADD_PARTITIONS_TO_TXN)
        assert self._identity is not None, "no producer id"
        wanted = request(
            v3_and_below_transactional_id=self._id,
            v3_and_below_producer_id=self._identity[0],
            v3_and_below_producer_epoch=self._identity[1],
            v3_and_below_topics=[request.AddPartitionsToTxnTopic(name=TOPIC, partitions=[number])],
        )
        await self._ask_coordinator(self._id, _TRANSACTION_KEY, wanted, 2)
        self._added.add(number)

    async def commit_offset(self, number: int, offset: Offset) -> None:
        """Commit the chain's offset in the transaction."""
        assert self._identity is not None, "no producer id"
        producer_id, epoch = self._identity
        add = schemas.request_class(ApiKey.ADD_OFFSETS_TO_TXN)
        wanted = add(transactional_id=self._id, producer_id=producer_id, producer_epoch=epoch, group_id=GROUP)
        await self._ask_coordinator(self._id, _TRANSACTION_KEY, wanted, 2)
        commit = schemas.request_class(ApiKey.TXN_OFFSET_COMMIT)
        topic = commit.TxnOffsetCommitRequestTopic
        row = topic.TxnOffsetCommitRequestPartition(
            partition_index=number, committed_offset=offset, committed_leader_epoch=-1, committed_metadata=""
        )
        wanted = commit(
            transactional_id=self._id,
            group_id=GROUP,
            producer_id=producer_id,
            producer_epoch=epoch,
            generation_id=-1,
            member_id="",
            group_instance_id=None,
            topics=[topic(name=TOPIC, partitions=[row])],
        )
        await self._ask_coordinator(GROUP, 0, wanted, 3)

    async def end(self, *, is_commit: bool) -> None:
        """Commit or abort the transaction."""
        assert self._identity is not None, "no producer id"
        request = schemas.request_class(ApiKey.END_TXN)
        self._is_committing = is_commit
        wanted = request(
            transactional_id=self._id,
            producer_id=self._identity[0],
            producer_epoch=self._identity[1],
            committed=is_commit,
        )
        await self._ask_coordinator(self._id, _TRANSACTION_KEY, wanted, 2)

    async def run_transaction(self, topic: KnownTopic, plan: Transaction) -> None:
        """Append the records of a plan, commit its offsets, and end it. Raises `Refused`."""
        op = self.recorder.invoke(self.process, TXN, plan)
        self._added.clear()
        self._is_committing = False
        done: list[Append] = []
        try:
            appends = plan.appends()
            is_together = len(appends) > 1 and len({each.partition for each in appends}) == 1
            if is_together and self.random.random() < PIPELINED:
                done += await self.append_together(topic, appends)
            for append in appends[len(done) :]:
                if self.random.random() < STALLS:
                    await asyncio.sleep(self.random.uniform(0.5, 2) * TIMEOUT_MS / 1000)
                done.append(await self.append(topic, append))
            for consumed in plan.consumed:
                await self.commit_offset(consumed.partition.partition, consumed.end)
            draw = self.random.random()
            if draw < LEFT_OPEN:
                raise Refused("left open")
            await self.end(is_commit=draw >= LEFT_OPEN + ABORTS)
        except Refused as error:
            self._record_end(op, plan, done, str(error))
            raise
        if not self._is_committing:
            self._record_end(op, plan, done, "aborted")
            return
        self.committed += len(done)
        self.recorder.ok(op, plan._replace(steps=tuple(done)))

    def _record_end(self, op: Op, plan: Transaction, done: list[Append], error: str) -> None:
        """Record that the transaction failed; with an unknown outcome if a commit was requested."""
        steps = (*done, *plan.appends()[len(done) :])
        complete = self.recorder.info if self._is_committing else self.recorder.fail
        complete(op, error, plan._replace(steps=steps))


class KafkaTransactor(TransactionalRole):
    """Producer of transactions that append to some partitions; half of them transfer an amount between two."""

    async def transact(self, topic: KnownTopic) -> None:
        """Execute a transaction: a transfer between both partitions, or up to three appends."""
        if self.random.random() < 0.5:
            amount = self.random.randint(1, 100)
            steps = [
                Append(topic.partition(n), self.next_value(), None, sign * amount) for n, sign in ((0, -1), (1, 1))
            ]
        else:
            count = self.random.randint(1, 3)
            numbers = [self.random.randrange(PARTITIONS) for _ in range(count)]
            steps = [Append(topic.partition(number), self.next_value()) for number in numbers]
        await self.run_transaction(topic, Transaction(tuple(steps)))


class KafkaChain(TransactionalRole):
    """Chain that writes a record for each committed record of one partition, exactly once."""

    def __init__(self, cluster: BrokerCluster, name: str, transactional_id: str) -> None:
        super().__init__(cluster, name, transactional_id)
        self._position: Offset | None = None

    async def transact(self, topic: KnownTopic) -> None:
        """Execute one step of the chain; after an error read the committed offset anew."""
        try:
            await self._consume(topic)
        except (Refused, NoAnswer):
            self._position = None
            raise

    async def _consume(self, topic: KnownTopic) -> None:
        """Read records of the input; in one transaction append a record for each, and commit the next offset."""
        if self._position is None:
            self._position = await self._read_offset(topic)
        found = await fetch_committed(self, INPUT, self._position, wait_ms=100)
        if code_in(found.error_code) is not ErrorCode.NONE:
            self.client.forget(TOPIC, INPUT)
            return
        fetched, after = decode(topic.partition(INPUT), committed_batches(found), self._position)
        offsets = fetched.offsets[:CHAIN_RECORDS]
        if not offsets:
            self._position = after
            return
        end = Offset(offsets[-1] + 1)
        appends = tuple(Append(topic.partition(OUTPUT), self.next_value()) for _ in offsets)
        consumed = Consumed(topic.partition(INPUT), offsets[0], end)
        self._position = None  # until it is known that the transaction was committed
        await self.run_transaction(topic, Transaction(appends, GROUP, (consumed,)))
        if self._is_committing:
            self._position = end

    async def _read_offset(self, topic: KnownTopic) -> Offset:
        """Return the committed offset of the input, which no open transaction may change. Raises `Refused`."""
        request = schemas.request_class(ApiKey.OFFSET_FETCH)
        row = request.OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[INPUT])
        op = self.recorder.invoke(self.process, TXN, Transaction((OffsetsRead(),), GROUP))
        try:
            answer = await self._ask_coordinator(
                GROUP, 0, request(group_id=GROUP, topics=[row], require_stable=True), 7
            )
        except Refused as error:
            self.recorder.fail(op, str(error))
            raise
        offset = answer.topics[0].partitions[0].committed_offset
        place: TopicPartition = topic.partition(INPUT)
        read = OffsetsRead(((place, None if offset < 0 else Offset(offset)),))
        self.recorder.ok(op, Transaction((read,), GROUP))
        return Offset(max(offset, 0))


def _code_of(answer: Any) -> ErrorCode:
    """Return the first error code in an answer; NONE without an error."""
    return next((each for each in _codes_in(answer) if each is not ErrorCode.NONE), ErrorCode.NONE)


def _codes_in(answer: Any) -> list[ErrorCode]:
    """Return all error codes in an answer: its own, and those of its partitions."""
    found = [code_in(answer.error_code)] if hasattr(answer, "error_code") else []
    for topic in getattr(answer, "topics", ()):
        found += [code_in(each.error_code) for each in topic.partitions]
    for topic in getattr(answer, "responses", ()):
        found += [code_in(each.error_code) for each in topic.partition_responses]
    for topic in getattr(answer, "results_by_topic_v3_and_below", ()):
        found += [code_in(each.partition_error_code) for each in topic.results_by_partition]
    return found
