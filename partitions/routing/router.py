"""Router of requests to the leader of a partition: on this node, or by one hop to another one.

    local replica has a known leader  ⇒  ask that one;   otherwise: the last leader named, or the preferred leader

Definitely refused requests are sent again, to the leader at that time, until the deadline; so are reads whose answer
was lost. A produce that may have been sent is never sent again. Requests carry the remaining time, never a clock
reading. The other side is `data_requests`. Called by partitions and the broker."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar
from uuid import UUID

from raftlog.errors import NoLeader, NotLeader, OutcomeUnknown, RaftlogError, Unavailable
from raftlog.partitions.deadline import Deadline
from raftlog.partitions.node import Node
from raftlog.partitions.replica import Replica, ReplicaAppended
from raftlog.partitions.replica.description import lost_end
from raftlog.partitions.results import Acks
from raftlog.raft import ReplicaId
from raftlog.runtime.rpc.calls import Answer
from raftlog.runtime.rpc.errors import NotConnected
from raftlog.runtime.tracing.spans import Span
from raftlog.types import NodeId, Offset

T = TypeVar("T")
PRODUCE = "data.produce"
TRACED_PRODUCE = "data.traced_produce"
FETCH = "data.fetch"
OFFSETS = "data.offsets"
TIMESTAMP = "data.timestamp"
TRIM = "data.trim"
END_TRANSACTION = "data.end_transaction"
APPENDED: Final = 4
"""Numbers in the answer to a produce; a 1 after them marks a duplicate of an earlier append."""
_PAUSE_S = 0.05
"""Pause between two attempts to reach the leader of a partition."""
_GRACE_S = 1.0
"""Time added to the deadline of a forwarded read before its answer counts as lost."""


class RoutedPartition(Protocol):
    """Fields of a partition that are needed to find its leader."""

    name: str
    number: int
    topic_id: UUID
    group_id: UUID
    assigned: Sequence[ReplicaId]
    replica: Replica | None
    hint: NodeId | None
    failed: NodeId | None

    def no_leader_error(self) -> RaftlogError | None:
        """Return the error with which an append fails at once without a leader; None if there is one."""
        ...


class PartitionRouter:
    """Router of requests to the leaders of partitions; one instance per process."""

    def __init__(self, node: Node) -> None:
        """Prepare to forward requests to the leaders of partitions."""
        self.me = node.identity.node_id
        self.forwarded = 0
        """Requests to leaders on other brokers, since the start of the process."""
        self.forwarding = 0
        """Forwarded requests without an answer yet; never below 0."""
        self._node = node

    def leader_of(self, partition: RoutedPartition) -> NodeId | None:
        """Return the leader as known here; None if it is unknown, unreachable or stalled."""
        replica = partition.replica
        if replica is not None:
            leader = replica.group.core.leader
            if leader is not None and self._is_reachable(leader.node_id):
                return leader.node_id
            if any(each.node_id == self.me for each in partition.assigned):
                return None  # this replica is being removed and gets no messages; other replicas have later state
        if partition.hint is not None and self._is_reachable(partition.hint):
            return partition.hint
        return self._guess_leader(partition)

    def _is_reachable(self, node: NodeId) -> bool:
        """Return whether the node is this one, or alive."""
        return node == self.me or self._node.is_alive(node)

    def _guess_leader(self, partition: RoutedPartition) -> NodeId | None:
        """Return the first assigned replica on a reachable node, without the node that failed last.

        Called while this node has no replica yet."""
        others = [
            each.node_id for each in partition.assigned if each.node_id != self.me and self._is_reachable(each.node_id)
        ]
        return next((node for node in others if node != partition.failed), others[0] if others else None)

    def lost_end(self, partition: RoutedPartition) -> str | None:
        """Return the reason why the replica here lost too much of its log to lead; None without such a replica."""
        group = self._node.find_replica(partition.group_id)
        return None if group is None else lost_end(group)

    async def wait_for_leader_change(self, partition: RoutedPartition, deadline: Deadline) -> None:
        """Wait until the leader may have changed, for a bounded time."""
        until = Deadline(min(deadline, asyncio.get_running_loop().time() + _PAUSE_S))
        if partition.replica is None:
            await self._node.pause(until)
        else:
            await self._node.leader_changed(partition.group_id, until)

    async def call(
        self,
        partition: RoutedPartition,
        deadline: Deadline,
        call_local: Callable[[Replica], Awaitable[T]],
        call_remote: Callable[[NodeId], Awaitable[T]],
        *,
        is_repeatable: bool = True,
        only_reads: bool = True,
    ) -> T:
        """Send a request to the leader. Raises `NoLeader` if none was found before the deadline.

        A request whose answer was lost is sent again if it `is_repeatable`; unless the request `only_reads`, every
        error after that is an `OutcomeUnknown`.

        When the replica here has no known leader, the last attempt uses that replica: its committed records can be read
        without a leader, though there may be more."""
        loop = asyncio.get_running_loop()
        lost: OutcomeUnknown | None = None
        try:
            while True:
                leader, replica = self.leader_of(partition), partition.replica
                has_ended = loop.time() >= deadline
                try:
                    if leader is not None and leader != self.me:
                        return await call_remote(leader)
                    if replica is None or (leader is None and not has_ended):
                        why = partition.no_leader_error() if has_ended else None
                        raise why or NotLeader(f"{partition.name}: no leader is known")
                    return await call_local(replica)
                except (NotLeader, NotConnected, OutcomeUnknown) as error:
                    if isinstance(error, OutcomeUnknown):
                        lost = error
                        if not is_repeatable:
                            raise
                    if has_ended:
                        raise NoLeader(f"{partition.name}: no leader answered before the deadline ({error})") from None
                    await self._follow_refusal(partition, leader, error, deadline)
        except RaftlogError as error:
            if lost is None or only_reads or error is lost:
                raise
            raise OutcomeUnknown(
                f"an attempt whose answer was lost may have succeeded ({lost}); a later attempt failed: {error}"
            ) from None

    async def _follow_refusal(
        self, partition: RoutedPartition, called_node: NodeId | None, error: RaftlogError, deadline: Deadline
    ) -> None:
        """Record the leader that a refusal named.

        Without one, record that the called node failed, and wait for a change of leader."""
        named = error.leader if isinstance(error, NotLeader) else None
        if partition.replica is None and isinstance(named, ReplicaId) and named.node_id != partition.hint:
            partition.hint = named.node_id
            return
        if called_node is not None:
            # Its replica may have been moved: neither that node nor the last leader named is used next.
            partition.failed, partition.hint = called_node, None
        await self.wait_for_leader_change(partition, deadline)

    # requests to other nodes

    async def produce(
        self,
        leader: NodeId,
        partition: RoutedPartition,
        batches: Sequence[bytearray],
        acks: Acks,
        deadline: Deadline,
        span: Span | None = None,
    ) -> ReplicaAppended:
        """Append on another node, in one attempt. The context of a traced append (`span`) goes with it."""
        header = [partition.topic_id.bytes, partition.number, acks]
        try:
            if span is None:
                answer = await self._forward(leader, PRODUCE, header, batches, deadline)
            else:
                answer = await self._forward_traced(leader, header, batches, deadline, span)
        except NotLeader as error:
            if partition.replica is None:
                partition.failed = leader
                partition.hint = error.leader.node_id if isinstance(error.leader, ReplicaId) else None
            raise
        except OutcomeUnknown:
            partition.failed, partition.hint = leader, None
            raise
        partition.failed = None
        return decode_appended(answer)

    async def read(
        self,
        node: NodeId,
        name: str,
        partition: RoutedPartition,
        header: Mapping[str, Any],
        deadline: Deadline,
        payload: Sequence[Any] = (),
    ) -> Answer:
        """Send a repeatable request to another node, the leader; the answer may take until the deadline."""
        loop = asyncio.get_running_loop()
        left_ms = max(0, int((deadline - loop.time()) * 1000))
        value = [partition.topic_id.bytes, partition.number, left_ms, dict(header)]
        return await self._forward(node, name, value, payload, Deadline(max(deadline, loop.time()) + _GRACE_S))

    async def _forward_traced(
        self, leader: NodeId, header: list[Any], batches: Sequence[bytearray], deadline: Deadline, span: Span
    ) -> Answer:
        """Forward a traced append; a node whose release does not support traces gets it without the context."""
        forward = span.begin_child("forward", node=leader)
        try:
            try:
                context = [*header, forward.context.to_text()]
                return await self._forward(leader, TRACED_PRODUCE, context, batches, deadline)
            except Unavailable as error:
                if type(error) is not Unavailable:
                    raise
                return await self._forward(leader, PRODUCE, header, batches, deadline)
        finally:
            forward.end()

    async def _forward(
        self, node: NodeId, name: str, header: Any, payload: Sequence[Any], deadline: Deadline
    ) -> Answer:
        """Forward a request to the leader's node, and count it."""
        self.forwarded += 1
        self.forwarding += 1
        try:
            return await self._node.ask(node, name, header, payload, deadline)
        finally:
            self.forwarding -= 1


def encode_appended(appended: ReplicaAppended) -> Answer:
    """Return the answer to an append; a fifth number, 1, marks a duplicate."""
    numbers = list(appended[:APPENDED])
    return Answer([*numbers, 1] if appended.is_duplicate else numbers)


def decode_appended(answer: Answer) -> ReplicaAppended:
    """Return the result of an append on another node. Raises `OutcomeUnknown` for an answer of another form."""
    base, after, epoch, high_watermark, is_duplicate = decode_numbers(answer, APPENDED, 0)
    return ReplicaAppended(Offset(base), Offset(after), epoch, Offset(high_watermark), is_duplicate == 1)


def decode_numbers(answer: Answer, count: int, *defaults: int) -> list[int]:
    """Return the first `count` numbers of an answer, and the numbers after them or their `defaults`.

    Further fields are of a later release and ignored. Raises `OutcomeUnknown` for another answer."""
    value = answer.value
    if type(value) is list and len(value) >= count:
        numbers = [*value, *defaults[len(value) - count :]][: count + len(defaults)]
        if all(type(each) is int for each in numbers):
            return numbers
    raise OutcomeUnknown("the answer of another node cannot be decoded; check that it runs a compatible release")
