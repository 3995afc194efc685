"""Group members that act like Kafka's clients: requests of one version, one after another, at one broker."""

from collections.abc import Mapping, Sequence
from typing import Any

from raftlog.api.kafka.api import ApiKey
from raftlog.api.kafka.error_codes import ErrorCode
from raftlog.api.kafka.wire.schemas import request_class
from raftlog.assignors import Subscription, decode_assignment, encode_assignment, encode_subscription
from raftlog.types import TopicPartition
from tests.kafka.groups.conftest import GroupHandlers
from tests.waiting import until_async

G = "readers"
JOIN_MAX, SYNC_MAX, BEAT_MAX, LEAVE_MAX, COMMIT_MAX, FETCH_MAX = 7, 5, 4, 4, 8, 7
SUBSCRIPTION = encode_subscription(Subscription(("t",)))
PROTOCOLS = {"range": SUBSCRIPTION}


class KafkaMember:
    """Member of a group, with the newest versions unless `version` (of JoinGroup) is older."""

    def __init__(
        self, handlers: GroupHandlers, group: str = G, *, version: int = JOIN_MAX, instance_id: str | None = None
    ) -> None:
        self.handlers, self.group, self.version, self.instance_id = handlers, group, version, instance_id
        self.member_id = ""
        self.generation = -1
        self.joined: Any = None

    def identity(self, version: int, static_since: int) -> dict[str, Any]:
        static = {"group_instance_id": self.instance_id} if version >= static_since else {}
        return {"group_id": self.group, "member_id": self.member_id, **static}

    async def ask_to_join(self, protocols: Mapping[str, bytes] = PROTOCOLS, **fields: Any) -> Any:
        """Send one JoinGroup request; return the answer."""
        row = request_class(ApiKey.JOIN_GROUP).JoinGroupRequestProtocol
        asked: dict[str, Any] = {
            **self.identity(self.version, 5),
            "session_timeout_ms": 10_000,
            "protocol_type": "consumer",
            "protocols": [row(name=name, metadata=metadata) for name, metadata in protocols.items()],
        }
        if self.version >= 1:
            asked["rebalance_timeout_ms"] = 20_000
        return await self.handlers.call(ApiKey.JOIN_GROUP, self.version, **(asked | fields))

    async def join(self, **fields: Any) -> Any:
        """Join with the id that the broker gave first; return the answer of the new generation."""
        answer = await self.ask_to_join(**fields)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            answer = await self.ask_to_join(**fields)
        assert answer.error_code == 0, answer
        self.member_id, self.generation, self.joined = answer.member_id, answer.generation_id, answer
        return answer

    async def ask_to_sync(
        self, assignments: Mapping[str, bytes] | None = None, version: int = SYNC_MAX, **fields: Any
    ) -> Any:
        """Send one SyncGroup request; return the answer."""
        row = request_class(ApiKey.SYNC_GROUP).SyncGroupRequestAssignment
        asked = {
            **self.identity(version, 3),
            "generation_id": self.generation,
            "assignments": [row(member_id=each, assignment=data) for each, data in (assignments or {}).items()],
        }
        if version >= 5:
            asked |= {"protocol_type": "consumer", "protocol_name": "range"}
        return await self.handlers.call(ApiKey.SYNC_GROUP, version, **(asked | fields))

    async def sync(self, assignments: Mapping[str, Sequence[int]] | None = None, version: int = SYNC_MAX) -> list[int]:
        """Sync, as the group leader with partitions of `t` by member id; return this member's partitions."""
        given = {
            member_id: encode_assignment([TopicPartition("t", number) for number in numbers])
            for member_id, numbers in (assignments or {}).items()
        }
        answer = await self.ask_to_sync(given, version)
        assert answer.error_code == 0, answer
        return [each.partition for each in decode_assignment(answer.assignment).partitions]

    async def join_and_sync_alone(self) -> None:
        """Become the only member, with all partitions of `t`."""
        await self.join()
        assert await self.sync({self.member_id: range(4)}) == [0, 1, 2, 3]

    async def heartbeat(self, version: int = BEAT_MAX) -> int:
        """Return the code of a heartbeat."""
        asked = self.identity(version, 3) | {"generation_id": self.generation}
        return int((await self.handlers.call(ApiKey.HEARTBEAT, version, **asked)).error_code)

    async def wait_for_rebalance(self) -> None:
        """Send heartbeats until the group begins to rebalance."""

        async def is_reported() -> bool:
            code = await self.heartbeat()
            assert code in (0, ErrorCode.REBALANCE_IN_PROGRESS)
            return code != 0

        await until_async(is_reported)

    async def leave(self, version: int = LEAVE_MAX) -> Any:
        """Leave the group; return the answer."""
        if version < 3:
            return await self.handlers.call(ApiKey.LEAVE_GROUP, version, group_id=self.group, member_id=self.member_id)
        return await leave(self.handlers, {self.member_id: self.instance_id}, self.group, version)

    async def commit(self, offsets: Mapping[int, int], version: int = COMMIT_MAX) -> dict[int, int]:
        """Commit offsets of `t`; return the error codes by partition."""
        static = {"group_instance_id": self.instance_id} if version >= 7 else {}
        return await commit(
            self.handlers,
            offsets,
            self.group,
            version,
            member_id=self.member_id,
            generation_id_or_member_epoch=self.generation,
            **static,
        )


async def leave(
    handlers: GroupHandlers, members: Mapping[str, str | None], group: str = G, version: int = LEAVE_MAX
) -> Any:
    row = request_class(ApiKey.LEAVE_GROUP).MemberIdentity
    rows = [row(member_id=member_id, group_instance_id=instance_id) for member_id, instance_id in members.items()]
    return await handlers.call(ApiKey.LEAVE_GROUP, version, group_id=group, members=rows)


async def commit(
    handlers: GroupHandlers,
    offsets: Mapping[int, int],
    group: str = G,
    version: int = COMMIT_MAX,
    *,
    topic: str = "t",
    metadata: str | None = "",
    leader_epoch: int = -1,
    **fields: Any,
) -> dict[int, int]:
    """Commit offsets, without a member unless `fields` name one; return the error codes by partition."""
    topic_row = request_class(ApiKey.OFFSET_COMMIT).OffsetCommitRequestTopic
    row = topic_row.OffsetCommitRequestPartition
    epoch = {"committed_leader_epoch": leader_epoch} if version >= 6 else {}
    rows = [
        row(partition_index=number, committed_offset=offset, committed_metadata=metadata, **epoch)
        for number, offset in offsets.items()
    ]
    asked = {"group_id": group, "member_id": "", "generation_id_or_member_epoch": -1} | fields
    answer = await handlers.call(
        ApiKey.OFFSET_COMMIT, version, topics=[topic_row(name=topic, partitions=rows)], **asked
    )
    (topic_answer,) = answer.topics
    assert topic_answer.name == topic
    return {each.partition_index: each.error_code for each in topic_answer.partitions}


async def fetch_offsets(
    handlers: GroupHandlers, wanted: Mapping[str, Sequence[int]] | None = None, group: str = G, version: int = FETCH_MAX
) -> Any:
    """Return the answer to OffsetFetch; `wanted` None requests all partitions."""
    row = request_class(ApiKey.OFFSET_FETCH).OffsetFetchRequestTopic
    topics = None if wanted is None else [row(name=name, partition_indexes=list(rows)) for name, rows in wanted.items()]
    stable = {"require_stable": True} if version >= 7 else {}
    return await handlers.call(ApiKey.OFFSET_FETCH, version, group_id=group, topics=topics, **stable)


async def fetch_committed(
    handlers: GroupHandlers, wanted: Mapping[str, Sequence[int]] | None = None, group: str = G
) -> dict[str, dict[int, int]]:
    """Return committed offsets by topic and partition."""
    answer = await fetch_offsets(handlers, wanted, group)
    assert answer.error_code == 0
    return {
        topic.name: {each.partition_index: each.committed_offset for each in topic.partitions}
        for topic in answer.topics
    }
