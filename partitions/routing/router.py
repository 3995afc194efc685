"""Who leads a partition, and asking the one who does: here, or by one hop to another node.

    local replica knows its leader  ⇒  that one is asked;   otherwise: who was named last, or the preferred leader

What was definitely refused is asked again, of whoever leads by then, until the deadline; so are reads whose answer was
lost. A produce that may have been sent is never sent again. Remaining time travels, never a clock reading. The other
side is `serving`. Called by partitions and the broker.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar
from uuid import UUID

from raftlog.errors import NoLeader, NotLeader, OutcomeUnknown, RaftlogError
from raftlog.partitions.deadline import Deadline
from raftlog.partitions.node import Node
from raftlog.partitions.replica import Replica, ReplicaAppended
from raftlog.partitions.replica.describing import lost_end
from raftlog.partitions.results import Acks
from raftlog.raft import ReplicaId
from raftlog.runtime.rpc.calls import Answer
from raftlog.runtime.rpc.errors import NotConnected
from raftlog.types import NodeId, Offset

T = TypeVar("T")
PRODUCE = "data.produce"
FETCH = "data.fetch"
OFFSETS = "data.offsets"
TIMESTAMP = "data.timestamp"
TRIM = "data.trim"
APPENDED: Final = 4
"""Numbers in the answer to a produce; a 1 behind them when all of it was appended before."""
_PAUSE_S = 0.05
"""Between two looks at a partition whose leader cannot be reached."""
_GRACE_S = 1.0
"""How much longer than a fetch may wait over there its answer is waited for here."""


class RoutedPartition(Protocol):
    """A partition, as far as finding its leader goes."""

    name: str
    number: int
    topic_id: UUID
    group_id: UUID
    assigned: Sequence[ReplicaId]
    replica: Replica | None
    hint: NodeId | None
    failed: NodeId | None

    def why_no_leader(self) -> RaftlogError | None:
        """Why an append would be refused at once because nobody is known to lead."""
        ...


class PartitionRouter:
    """One for each process."""

    def __init__(self, node: Node) -> None:
        self.me = node.identity.node_id
        self.forwarded = 0
        """Requests to leaders on other brokers, since the start of the process."""
        self.forwarding = 0
        """Those of them that have no answer yet; never below 0."""
        self._node = node

    def leader_of(self, partition: RoutedPartition) -> NodeId | None:
        """As known now; None while nobody is, or while that one cannot be reached or stands still."""
        replica = partition.replica
        if replica is not None:
            leader = replica.group.core.leader
            if leader is not None and self._is_there(leader.node_id):
                return leader.node_id
            if any(each.node_id == self.me for each in partition.assigned):
                return None  # a replica that is on its way out hears nobody; another one knows more
        if partition.hint is not None and self._is_there(partition.hint):
            return partition.hint
        return self._likeliest(partition)

    def _is_there(self, node: NodeId) -> bool:
        return node == self.me or self._node.is_alive(node)

    def _likeliest(self, partition: RoutedPartition) -> NodeId | None:
        """The first replica that can be asked, and did not fail to answer just now. Our own has not been made yet."""
        others = [
            each.node_id for each in partition.assigned if each.node_id != self.me and self._is_there(each.node_id)
        ]
        return next((node for node in others if node != partition.failed), others[0] if others else None)

    def lost_end(self, partition: RoutedPartition) -> str | None:
        """Why the replica here, of which too little is left to lead, cannot go on; None where there is none."""
        group = self._node.group(partition.group_id)
        return None if group is None else lost_end(group)

    async def leader_changes(self, partition: RoutedPartition, deadline: Deadline) -> None:
        """Wait until the leader may be another one, a short time at most."""
        until = Deadline(min(deadline, asyncio.get_running_loop().time() + _PAUSE_S))
        if partition.replica is None:
            await self._node.pause(until)
        else:
            await self._node.leader_changed(partition.group_id, until)

    async def call(
        self,
        partition: RoutedPartition,
        deadline: Deadline,
        here: Callable[[Replica], Awaitable[T]],
        there: Callable[[NodeId], Awaitable[T]],
        *,
        is_repeatable: bool = True,
        only_reads: bool = True,
    ) -> T:
        """Ask the leader. Raises `NoLeader` when none was found before the deadline.

        An answer that was lost is asked for again if that `is_repeatable`; unless the request `only_reads`, every error
        after it is an `OutcomeUnknown`.

        The last attempt, when nobody leads as far as the replica here knows, asks that one: what is committed there can
        be read without a leader, though there may be more.
        """
        loop = asyncio.get_running_loop()
        lost: OutcomeUnknown | None = None
        try:
            while True:
                leader, replica = self.leader_of(partition), partition.replica
                is_over = loop.time() >= deadline
                try:
                    if leader is not None and leader != self.me:
                        return await there(leader)
                    if replica is None or (leader is None and not is_over):
                        why = partition.why_no_leader() if is_over else None
                        raise why or NotLeader(f"{partition.name}: no leader is known")
                    return await here(replica)
                except (NotLeader, NotConnected, OutcomeUnknown) as error:
                    if isinstance(error, OutcomeUnknown):
                        lost = error
                        if not is_repeatable:
                            raise
                    if is_over:
                        raise NoLeader(f"{partition.name}: no leader answered before the deadline ({error})") from None
                    await self._after(partition, leader, error, deadline)
        except RaftlogError as error:
            if lost is None or only_reads or error is lost:
                raise
            raise OutcomeUnknown(
                f"an attempt whose answer was lost may have succeeded ({lost}); then: {error}"
            ) from None

    async def _after(
        self, partition: RoutedPartition, asked: NodeId | None, error: RaftlogError, deadline: Deadline
    ) -> None:
        """Go on with the leader that was named, or wait for another one and ask somebody else."""
        named = error.leader if isinstance(error, NotLeader) else None
        if partition.replica is None and isinstance(named, ReplicaId) and named.node_id != partition.hint:
            partition.hint = named.node_id
            return
        if asked is not None:
            # Its replica may have gone to others for good; whoever was named last is believed no longer.
            partition.failed, partition.hint = asked, None
        await self.leader_changes(partition, deadline)

    # to others

    async def produce(
        self,
        leader: NodeId,
        partition: RoutedPartition,
        batches: Sequence[bytearray],
        acks: Acks,
        deadline: Deadline,
    ) -> ReplicaAppended:
        """Let another node append, in one attempt."""
        header = [partition.topic_id.bytes, partition.number, acks]
        try:
            answer = await self._forward(leader, PRODUCE, header, batches, deadline)
        except NotLeader as error:
            if partition.replica is None:
                partition.failed = leader
                partition.hint = error.leader.node_id if isinstance(error.leader, ReplicaId) else None
            raise
        except OutcomeUnknown:
            partition.failed, partition.hint = leader, None
            raise
        partition.failed = None
        base, after, epoch, high_watermark, is_duplicate = numbers_of(answer, APPENDED, 0)
        return ReplicaAppended(Offset(base), Offset(after), epoch, Offset(high_watermark), is_duplicate == 1)

    async def read(
        self, node: NodeId, name: str, partition: RoutedPartition, header: Mapping[str, Any], deadline: Deadline
    ) -> Answer:
        """Ask another node about a partition that it leads; it may wait until the deadline before it answers."""
        loop = asyncio.get_running_loop()
        left_ms = max(0, int((deadline - loop.time()) * 1000))
        value = [partition.topic_id.bytes, partition.number, left_ms, dict(header)]
        return await self._forward(node, name, value, (), Deadline(max(deadline, loop.time()) + _GRACE_S))

    async def _forward(
        self, node: NodeId, name: str, header: Any, payload: Sequence[Any], deadline: Deadline
    ) -> Answer:
        self.forwarded += 1
        self.forwarding += 1
        try:
            return await self._node.ask(node, name, header, payload, deadline)
        finally:
            self.forwarding -= 1


def numbers_of(answer: Answer, count: int, *defaults: int) -> list[int]:
    """Return the first `count` numbers of an answer and those behind them, which have `defaults` where they miss.

    Fields behind those are of a later release, and ignored. Raises `OutcomeUnknown` for another answer.
    """
    value = answer.value
    if type(value) is list and len(value) >= count:
        numbers = [*value, *defaults[len(value) - count :]][: count + len(defaults)]
        if all(type(each) is int for each in numbers):
            return numbers
    raise OutcomeUnknown("another node answered something that cannot be read; does it run another release?")
