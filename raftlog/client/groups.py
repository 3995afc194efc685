"""Consumer groups: membership, committed offsets, and administration.

`raftlog.client.BrokerClient.groups`, used by `Consumer` and the command line. Every call names its group and may go to
any broker: brokers forward to the group's coordinator, and once an answer has named it (`X-Raftlog-Leader`) requests go
there first. Errors are those of the broker (`raftlog.errors`): `UnknownMember`, `StaleGeneration`, `FencedInstance`,
`InconsistentProtocol`, `RebalanceInProgress`, `GroupNotEmpty`, `UnknownGroup`; `Unavailable` while a new coordinator is
loading. Times are in milliseconds.

The client keeps no generation: the caller passes its `Membership` to every call."""

import base64
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, Literal, TypeVar

from msgspec import UnsetType

from raftlog.client.calls import ANSWER_MS, Calls, quote_segment
from raftlog.client.group_answers import CommittedOffset, Membership
from raftlog.client.leaders import GroupTarget
from raftlog.errors import UnstableOffsets
from raftlog.types import Offset, TopicPartition
from raftlog.values.groups import (
    ConsumerDescription,
    GroupDescription,
    GroupNames,
    GroupOffsets,
    Joined,
    LeaveResults,
    Left,
    OffsetReset,
    OffsetsReset,
    PartitionLag,
    Synced,
)
from raftlog.values.v3 import ObjectList

T = TypeVar("T")
_NOTHING: Final[Any] = Any
TIMEOUT_MS_MAX: Final = 600_000
"""Longest wait that a broker accepts."""
_V3: Final = "/v3/clusters/-/consumer-groups"


class GroupClient:
    """Consumer-group part of a `BrokerClient`, whose transport it uses."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    # membership

    async def join(
        self,
        group: str,
        protocols: Mapping[str, bytes],
        *,
        member_id: str = "",
        instance_id: str | None = None,
        client_id: str = "raftlog",
        session_timeout_ms: int = 10_000,
        rebalance_timeout_ms: int = 60_000,
        protocol_type: str = "consumer",
        assigned_by: Literal["leader", "broker"] = "leader",
        timeout_ms: int | None = None,
    ) -> Joined:
        """Join a group, or rejoin it; wait until the generation begins, at most for the rebalance timeout.

        `protocols` maps names of assignors to the subscription in Kafka's encoding, the preferred one first. Without a
        `member_id` the coordinator assigns one. Raises `RebalanceInProgress` when other members have not joined in
        time: join again with the same arguments. A lost answer to a first join is `OutcomeUnknown`: join again; a
        member that it may have created expires with its session."""
        fields = {
            "member_id": member_id,
            "instance_id": instance_id,
            "client_id": client_id,
            "session_timeout_ms": session_timeout_ms,
            "rebalance_timeout_ms": rebalance_timeout_ms,
            "protocol_type": protocol_type,
            "protocols": [{"name": name, "metadata": _encode_base64(data)} for name, data in protocols.items()],
            "assigned_by": assigned_by,
        }
        wait_ms = min(rebalance_timeout_ms + ANSWER_MS, TIMEOUT_MS_MAX) if timeout_ms is None else timeout_ms
        is_repeatable = bool(member_id or instance_id)
        return await self._post(Joined, group, "join", fields, wait_ms, repeatable=is_repeatable, is_held=True)

    async def sync(
        self,
        group: str,
        member: Membership,
        assignments: Mapping[str, bytes] | None = None,
        *,
        timeout_ms: int = 60_000,
    ) -> Synced:
        """Return the member's assignment; the group leader passes those of all members, by member id.

        The other members wait for the leader's call."""
        rows = [{"member_id": name, "assignment": _encode_base64(data)} for name, data in (assignments or {}).items()]
        fields = {**member._asdict(), "assignments": rows}
        return await self._post(Synced, group, "sync", fields, timeout_ms, repeatable=True, is_held=True)

    async def heartbeat(self, group: str, member: Membership, *, wait_ms: int = 0, timeout_ms: int = ANSWER_MS) -> None:
        """Renew the member's session. Raises `RebalanceInProgress` when the member has to rejoin.

        With `wait_ms` (at most 30,000), the broker answers as soon as a rebalance begins. Without a rebalance it
        answers after `wait_ms`, or after half the session if that is shorter."""
        fields = {**member._asdict(), "wait_ms": wait_ms}
        await self._post(_NOTHING, group, "heartbeat", fields, timeout_ms, repeatable=True, wait_ms=wait_ms)

    async def leave(
        self, group: str, members: Sequence[tuple[str, str | None]], *, timeout_ms: int = ANSWER_MS
    ) -> list[Left]:
        """Remove members, given by member id and instance id. An unknown one does not affect the others."""
        rows = [{"member_id": member_id, "instance_id": instance_id} for member_id, instance_id in members]
        answer = await self._post(LeaveResults, group, "leave", {"members": rows}, timeout_ms, repeatable=True)
        return list(answer.members)

    # offsets

    async def commit(
        self,
        group: str,
        offsets: Mapping[TopicPartition, int | CommittedOffset],
        member: Membership | None = None,
        *,
        timeout_ms: int = ANSWER_MS,
    ) -> None:
        """Commit offsets of the group.

        With a `member` the commit is fenced by its generation and may move offsets backwards; a lost answer is
        `OutcomeUnknown`. Without one, committed offsets only rise, so repeating it is harmless; a group that has
        members refuses it."""
        fields: dict[str, Any] = {
            "offsets": [_make_commit_row(topic_partition, value) for topic_partition, value in offsets.items()]
        }
        if member is not None:
            fields |= member._asdict()
        await self._post(_NOTHING, group, "offsets", fields, timeout_ms, repeatable=member is None)

    async def committed(
        self, group: str, *, stable: Collection[TopicPartition] = (), timeout_ms: int = ANSWER_MS
    ) -> dict[TopicPartition, CommittedOffset]:
        """Return the committed offsets of the group, all acknowledged commits included; empty without commits.

        Raises `UnstableOffsets` while a transaction may change the offset of one of the partitions `stable`."""
        found = await self._get(GroupOffsets, group, _group_path(group, "offsets"), timeout_ms)
        for changing in () if isinstance(found.unstable, UnsetType) else found.unstable:
            if TopicPartition(changing.topic, changing.partition) in stable:
                raise UnstableOffsets(
                    f"group {group}: a transaction with an offset of {changing.topic}/{changing.partition} has not "
                    "ended; retry"
                )
        return {
            TopicPartition(row.topic, row.partition): CommittedOffset(
                Offset(row.offset), row.metadata, row.leader_epoch
            )
            for row in found.offsets
        }

    async def delete_offsets(self, group: str, topic: str, *, timeout_ms: int = ANSWER_MS) -> None:
        """Delete the committed offsets of a topic.

        Raises `UnknownGroup`, and `GroupNotEmpty` while a member is subscribed to the topic."""
        path, query = _group_path(group, "offsets"), {"topic": topic}
        await self._change(_NOTHING, "DELETE", group, path, None, timeout_ms, repeatable=True, query=query)

    async def reset(
        self,
        group: str,
        to: str | Mapping[str, int],
        *,
        topics: Sequence[str] | None = None,
        partitions: Sequence[TopicPartition] | None = None,
        dry_run: bool = False,
        timeout_ms: int = ANSWER_MS,
    ) -> list[OffsetReset]:
        """Move the committed offsets of an empty group. Raises `GroupNotEmpty`.

        `to` is `"earliest"`, `"latest"`, `{"timestamp": ms}`, `{"shift": n}` or `{"offset": n}`. Without topics and
        partitions all committed offsets are moved."""
        fields: dict[str, Any] = {"to": to if isinstance(to, str) else dict(to), "dry_run": dry_run}
        if topics is not None:
            fields["topics"] = list(topics)
        if partitions is not None:
            fields["partitions"] = [{"topic": topic, "partition": number} for topic, number in partitions]
        answer = await self._post(OffsetsReset, group, "offsets/reset", fields, timeout_ms, only_reads=dry_run)
        return list(answer.offsets)

    # administration

    async def names(self, *, timeout_ms: int = ANSWER_MS) -> list[str]:
        """Return the names of all groups of the cluster, sorted."""
        found = await self._calls.read(GroupNames, "/groups", {"timeout": timeout_ms}, timeout_ms=timeout_ms)
        return list(found.groups)

    async def describe_all(self, *, timeout_ms: int = ANSWER_MS) -> list[GroupDescription]:
        """Return all groups with their states."""
        kind, query = ObjectList[GroupDescription], {"timeout": timeout_ms}
        return list((await self._calls.read(kind, _V3, query, timeout_ms=timeout_ms)).data)

    async def describe(self, group: str, *, timeout_ms: int = ANSWER_MS) -> GroupDescription:
        """Return one group; raises `UnknownGroup`."""
        return await self._get(GroupDescription, group, f"{_V3}/{quote_segment(group, 'group')}", timeout_ms)

    async def consumers(self, group: str, *, timeout_ms: int = ANSWER_MS) -> list[ConsumerDescription]:
        """Return the members of a group; raises `UnknownGroup`."""
        path = f"{_V3}/{quote_segment(group, 'group')}/consumers"
        return list((await self._get(ObjectList[ConsumerDescription], group, path, timeout_ms)).data)

    async def lag(self, group: str, *, timeout_ms: int = ANSWER_MS) -> list[PartitionLag]:
        """Return the lag of each partition that is committed or assigned; raises `UnknownGroup`."""
        path = f"{_V3}/{quote_segment(group, 'group')}/lags"
        return list((await self._get(ObjectList[PartitionLag], group, path, timeout_ms)).data)

    async def delete(self, group: str, *, timeout_ms: int = ANSWER_MS) -> None:
        """Delete a group without members, and its committed offsets; raises `UnknownGroup` and `GroupNotEmpty`."""
        await self._change(_NOTHING, "DELETE", group, f"{_V3}/{quote_segment(group, 'group')}", None, timeout_ms)

    async def _post(self, kind: type[T], group: str, verb: str, fields: object, timeout_ms: int, **options: Any) -> T:
        """Send a request about the group; return the answer as `kind`."""
        return await self._change(kind, "POST", group, _group_path(group, verb), fields, timeout_ms, **options)

    async def _change(
        self, kind: type[T], method: str, group: str, path: str, fields: object, timeout_ms: int, **options: Any
    ) -> T:
        """Send a change to the group's coordinator; options are those of `Calls.change_as`."""
        timeout_ms = min(timeout_ms, TIMEOUT_MS_MAX)
        target = GroupTarget(group)
        return await self._calls.change_as(kind, method, path, fields, timeout_ms=timeout_ms, target=target, **options)

    async def _get(self, kind: type[T], group: str, path: str, timeout_ms: int) -> T:
        """Send a GET request to the group's coordinator; return the answer, decoded as `kind`."""
        query = {"timeout": timeout_ms}
        return await self._calls.read(kind, path, query, target=GroupTarget(group), timeout_ms=timeout_ms)


def _group_path(group: str, verb: str) -> str:
    """Return the path of a request about the group."""
    return f"/groups/{quote_segment(group, 'group')}/{verb}"


def _make_commit_row(topic_partition: TopicPartition, value: int | CommittedOffset) -> dict[str, object]:
    """Return a committed offset as the JSON object of a request."""
    committed = value if isinstance(value, CommittedOffset) else CommittedOffset(Offset(value))
    row: dict[str, object] = {
        "topic": topic_partition.topic,
        "partition": topic_partition.partition,
        "offset": committed.offset,
    }
    if committed.metadata:
        row["metadata"] = committed.metadata
    if committed.leader_epoch is not None:
        row["leader_epoch"] = committed.leader_epoch
    return row


def _encode_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
