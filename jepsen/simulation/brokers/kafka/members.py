"""Members of one consumer group over Kafka's protocol: join, share partitions, commit, pause and rejoin.

Now and then a member commits in a generation that is over, or after a silence longer than its session: such a commit
must be refused (`fenced-commit` of the checkers)."""

import asyncio
from typing import Any, Final

from jepsen.checkers import GroupOffsets, Membership
from jepsen.checkers.history import COMMIT, COMMITTED, JOIN, Op
from jepsen.simulation.brokers.cluster import BrokerCluster
from jepsen.simulation.brokers.kafka.roles import ASK_S, PARTITIONS, RETRY_S, TOPIC, KafkaRole, code_in
from jepsen.simulation.brokers.kafka.wire_client import NoAnswer
from jepsen.simulation.brokers.workload.clients import KnownTopic
from raftlog.api.kafka.api import ApiKey
from raftlog.api.kafka.error_codes import ErrorCode
from raftlog.api.kafka.wire import schemas
from raftlog.assignors import (
    ASSIGNORS,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from raftlog.types import Offset, TopicPartition

GROUP: Final = "kafka-members"
SESSION_MS: Final = 1_000
REBALANCE_MS: Final = 3_000
HEARTBEAT_S: Final = 0.2
SILENCES: Final = 0.01
LEAVES: Final = 0.01
STALE_COMMITS: Final = 0.1
"""Share of commits that name the generation before."""
_PROTOCOL: Final = "range"
_DEFINITE: Final = frozenset(
    (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.REBALANCE_IN_PROGRESS,
    )
)
"""Error codes after which a commit definitely did not happen."""


class KafkaGroupMember(KafkaRole):
    """Consumer that joins the group again and again; under all its member ids it is one process of the history."""

    def __init__(self, cluster: BrokerCluster, name: str) -> None:
        super().__init__(cluster, name)
        self._member, self._generation = "", -1
        self._owned: tuple[TopicPartition, ...] = ()
        self._next: dict[TopicPartition, int] = {}
        self._coordinator: str | None = None
        self._join: Op | None = None

    async def step(self) -> None:
        """Join the group, or perform one action as a member."""
        topic = self.topic()
        if topic is None:
            await asyncio.sleep(RETRY_S)
            return
        try:
            if self._generation < 0:
                await self._join_group(topic)
            else:
                await self._act_as_member(topic)
        except NoAnswer:
            self._coordinator = None
            raise

    async def _ask(self, request: Any, version: int, timeout_s: float = ASK_S) -> Any:
        """Send a request to the coordinator and return the answer. Raises `NoAnswer` without one."""
        if self._coordinator is None:
            finder = schemas.request_class(ApiKey.FIND_COORDINATOR)
            found = await self.client.ask(self.client.any_host(), finder(key=GROUP, key_type=0), 1, ASK_S)
            if code_in(found.error_code) is not ErrorCode.NONE:
                raise NoAnswer("no coordinator")
            self._coordinator = found.host
        return await self.client.ask(self._coordinator, request, version, timeout_s)

    # joining

    async def _join_group(self, topic: KnownTopic) -> None:
        """Request to join the group; once joined, request the assignment."""
        if self._join is None:
            self._join = self.recorder.invoke(self.process, JOIN, Membership(GROUP, self._member))
        request = schemas.request_class(ApiKey.JOIN_GROUP)
        metadata = bytes(encode_subscription(Subscription((TOPIC,))))
        wanted = request(
            group_id=GROUP,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self._member,
            group_instance_id=None,
            protocol_type="consumer",
            protocols=[request.JoinGroupRequestProtocol(name=_PROTOCOL, metadata=metadata)],
        )
        joined = await self._ask(wanted, 5, ASK_S + REBALANCE_MS / 1000)
        code = code_in(joined.error_code)
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            self._member = joined.member_id
            return
        if code is not ErrorCode.NONE:
            await self._on_refusal(code)
            return
        self._member = joined.member_id
        await self._sync(topic, joined)

    async def _sync(self, topic: KnownTopic, joined: Any) -> None:
        """Send all members' assignments if this member is the group leader; receive and record its own."""
        request = schemas.request_class(ApiKey.SYNC_GROUP)
        wanted = request(
            group_id=GROUP,
            generation_id=joined.generation_id,
            member_id=self._member,
            group_instance_id=None,
            assignments=[
                request.SyncGroupRequestAssignment(member_id=member, assignment=assignment)
                for member, assignment in _assignments(joined).items()
            ],
        )
        synced = await self._ask(wanted, 3, ASK_S + REBALANCE_MS / 1000)
        code = code_in(synced.error_code)
        if code is not ErrorCode.NONE:
            await self._on_refusal(code)
            return
        self._generation = joined.generation_id
        self._owned = tuple(
            topic.partition(each.partition) for each in decode_assignment(bytes(synced.assignment)).partitions
        )
        assert self._join is not None, "joined without a request"
        self.recorder.ok(self._join, Membership(GROUP, self._member, self._generation, self._owned))
        self._join = None

    async def _on_refusal(self, code: ErrorCode) -> None:
        """Reset the member id, the coordinator or the generation, as the error code requires, and wait."""
        if code is ErrorCode.UNKNOWN_MEMBER_ID:
            self._member = ""
        if code not in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION):
            self._coordinator = None
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION):
            self._generation, self._owned = -1, ()
        await asyncio.sleep(RETRY_S)

    # inside

    async def _act_as_member(self, topic: KnownTopic) -> None:
        """Do one random step: commit, also after a long silence, read offsets, send a heartbeat, or leave."""
        draw = self.random.random()
        if draw < SILENCES:
            await asyncio.sleep(self.random.uniform(0.5, 2) * SESSION_MS / 1000)
            await self._commit()
        elif draw < SILENCES + LEAVES:
            await self._leave()
        elif draw < 0.3 and self._owned:
            await self._commit()
        elif draw < 0.4:
            await self._read(topic)
        else:
            await self._heartbeat()
        await asyncio.sleep(self.random.uniform(0.2, 1) * HEARTBEAT_S)

    async def _heartbeat(self) -> None:
        """Send a heartbeat; join again if it is refused."""
        request = schemas.request_class(ApiKey.HEARTBEAT)
        beat = request(group_id=GROUP, generation_id=self._generation, member_id=self._member, group_instance_id=None)
        code = code_in((await self._ask(beat, 3)).error_code)
        if code is not ErrorCode.NONE:
            await self._on_refusal(code)

    async def _leave(self) -> None:
        """Leave the group."""
        request = schemas.request_class(ApiKey.LEAVE_GROUP)
        member, self._member, self._generation, self._owned = self._member, "", -1, ()
        await self._ask(request(group_id=GROUP, member_id=member), 2)

    async def _commit(self) -> None:
        """Commit an offset of a random owned partition, at times under the previous generation."""
        if not self._owned:
            return
        partition = self.random.choice(self._owned)
        self._next[partition] = self._next.get(partition, 0) + self.random.choice((0, 1, 5))
        offset, generation = Offset(self._next[partition]), self._generation
        if generation > 0 and self.random.random() < STALE_COMMITS:
            generation -= 1
        payload = GroupOffsets(GROUP, ((partition, offset),), self._member, generation)
        op = self.recorder.invoke(self.process, COMMIT, payload)
        try:
            code = await self._ask_commit(partition.partition, offset, generation)
        except NoAnswer:
            self.recorder.info(op, "no answer")
            raise
        if code is ErrorCode.NONE:
            self.recorder.ok(op)
            return
        ended = self.recorder.fail if code in _DEFINITE else self.recorder.info
        ended(op, code.name)
        if generation == self._generation:
            await self._on_refusal(code)

    async def _ask_commit(self, number: int, offset: Offset, generation: int) -> ErrorCode:
        """Send an offset commit to the coordinator, and return the partition's error code. Raises `NoAnswer`."""
        request = schemas.request_class(ApiKey.OFFSET_COMMIT)
        row = request.OffsetCommitRequestTopic.OffsetCommitRequestPartition(
            partition_index=number, committed_offset=offset, committed_leader_epoch=-1, committed_metadata=""
        )
        wanted = request(
            group_id=GROUP,
            generation_id_or_member_epoch=generation,
            member_id=self._member,
            group_instance_id=None,
            topics=[request.OffsetCommitRequestTopic(name=TOPIC, partitions=[row])],
        )
        answer = await self._ask(wanted, 7, 2 * ASK_S)
        return code_in(answer.topics[0].partitions[0].error_code)

    async def _read(self, topic: KnownTopic) -> None:
        """Read the committed offsets of all partitions."""
        request = schemas.request_class(ApiKey.OFFSET_FETCH)
        numbers = list(range(PARTITIONS))
        wanted = request(
            group_id=GROUP, topics=[request.OffsetFetchRequestTopic(name=TOPIC, partition_indexes=numbers)]
        )
        op = self.recorder.invoke(self.process, COMMITTED, GroupOffsets(GROUP))
        try:
            answer = await self._ask(wanted, 5)
        except NoAnswer:
            self.recorder.fail(op, "no answer")
            raise
        code = code_in(answer.error_code)
        if code is not ErrorCode.NONE:
            self.recorder.fail(op, code.name)
            await self._on_refusal(code)
            return
        rows = tuple(
            (
                topic.partition(each.partition_index),
                None if each.committed_offset < 0 else Offset(each.committed_offset),
            )
            for each in answer.topics[0].partitions
        )
        self.recorder.ok(op, GroupOffsets(GROUP, rows))


def _assignments(joined: Any) -> dict[str, bytes]:
    """Return the assignments of all members if this one is the group leader."""
    if joined.leader != joined.member_id:
        return {}
    members = {each.member_id: decode_subscription(bytes(each.metadata)) for each in joined.members}
    found = ASSIGNORS[_PROTOCOL](members, {TOPIC: PARTITIONS})
    return {member: bytes(encode_assignment(partitions)) for member, partitions in found.items()}
