"""Progress of moving partitions, requested from all brokers at once, because only a partition's leader has it.

    moving: from its new assignment until its leader reports that its committed configuration matches it

A leader reports the partitions that it leads and whose configuration does not match the assignment, and those
in the request whose configuration does. It answers from a copy of the controller's state that is at least as new as the
requester's. A partition counts as moving until its leader reports its arrival. Requested by the balancer, served by
every broker."""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable
from typing import Any, Final, NamedTuple

from raftlog.errors import InvalidArgument, RaftlogError, Unavailable
from raftlog.partitions.controller import ControllerHost
from raftlog.partitions.deadline import Deadline
from raftlog.partitions.node import Node, Request
from raftlog.partitions.placement.moves import Moves
from raftlog.runtime.journal.operations import GroupKey
from raftlog.runtime.rpc.calls import Answer
from raftlog.types import NodeId

_logger = logging.getLogger(__name__)
MOVING: Final = "balancing.moving"
NAMED_MAX: Final = 4_000
"""Limit of partitions in one request or answer."""
_KNOW_S_MAX: Final = 0.5
"""Longest wait of a broker, in seconds, until its copy of the state is as new as the requester's."""
_KNOW_PAUSE_S: Final = 0.01
"""Interval in seconds at which a waiting broker checks its copy."""


class MovingPartition(NamedTuple):
    """Partition that is being moved.

    `missing`: brokers for which the move waits, most of which do not vote yet. `former`: voters to be removed."""

    missing: tuple[NodeId, ...]
    former: tuple[NodeId, ...]


class HeldReplicas(NamedTuple):
    """Report of one broker on the moving and arrived partitions that it leads.

    `held`: number of all its replicas, without the controller's."""

    held: int
    moving: dict[GroupKey, MovingPartition]
    arrived: list[GroupKey]
    led: bytes
    """Checksum (`summed`) of the groups that it leads, without the controller; empty unless requested."""
    is_settled: bool = True
    """Whether it has created all replicas that it should have."""


def summed(keys: Iterable[GroupKey]) -> bytes:
    """Return a checksum of a set of Raft groups, which a missing or repeated group changes."""
    return (sum(int.from_bytes(key) for key in keys) % (1 << 128)).to_bytes(16)


class BrokerProgress:
    """Requests between brokers for the progress of pending moves."""

    def __init__(self, node: Node, metadata: ControllerHost, moves: Moves, is_settled: Callable[[], bool]) -> None:
        self._node, self._metadata, self._moves, self._is_settled = node, metadata, moves, is_settled
        node.on_request(MOVING, self._serve)

    async def ask(
        self, nodes: Iterable[NodeId], groups: Collection[GroupKey], deadline: Deadline, *, with_led: bool
    ) -> dict[NodeId, HeldReplicas | None]:
        """Return the report of each broker; None if it does not answer, or its copy of the state is older."""
        nodes = list(nodes)
        header = [int(self._metadata.state.applied_index), list(groups)[:NAMED_MAX], with_led]
        answers = await asyncio.gather(*(self._ask(node, header, deadline) for node in nodes))
        return dict(zip(nodes, answers, strict=True))

    async def _ask(self, node: NodeId, header: list[Any], deadline: Deadline) -> HeldReplicas | None:
        """Return the report of a broker; None if it does not answer with one."""
        try:
            return _read_report((await self._node.ask(node, MOVING, header, (), deadline)).value)
        except RaftlogError as error:
            _logger.debug("node %s did not report moving partitions: %s", node, error)
            return None

    async def _serve(self, request: Request) -> Answer:
        """Answer with the replicas and moves of this broker."""
        report = await self._report(request.header, request.deadline)
        moving = [[key, *map(list, move)] for key, move in report.moving.items()]
        return Answer([report.held, moving, report.arrived, report.led, report.is_settled])

    async def _report(self, header: Any, deadline: Deadline) -> HeldReplicas:
        """Return this broker's report for a request.

        Wait until this broker has applied the controller's log up to the index in the request."""
        match header:
            case [int(index), [*keys], bool(with_led)] if all(type(key) is bytes for key in keys[:NAMED_MAX]):
                pass
            case _:
                raise InvalidArgument(f"a request {MOVING!r} cannot be read")
        loop = self._node.loop
        until = Deadline(min(deadline, loop.time() + _KNOW_S_MAX))
        while self._metadata.state.applied_index < index or not self._moves.is_compared:
            if loop.time() >= until or self._node.ended.done():
                raise Unavailable(f"node {self._node.identity.node_id} does not have the newest assignments yet; retry")
            await self._node.pause(Deadline(loop.time() + _KNOW_PAUSE_S))
        groups, differing = self._node.driver.groups, self._moves.differing_groups()
        moving = {}
        for group, wanted in differing[:NAMED_MAX]:
            voters = group.core.configuration.all_voters()
            missing = tuple(replica.node_id for replica in self._moves.find_awaited_replicas(group, wanted))
            moving[group.key] = MovingPartition(
                missing, tuple(voter.node_id for voter in voters if voter not in wanted)
            )
        differ = {group.key for group, _ in differing}
        here = [(key, groups[key]) for key in keys[:NAMED_MAX] if key in groups and key not in differ]
        arrived = [key for key, group in here if group.core.has_own_term_commit]
        controller = self._metadata.group_id
        held = len(groups) - (controller is not None and controller.bytes in groups)
        led = [key for key, group in groups.items() if group.core.has_own_term_commit] if with_led else []
        others = [key for key in led if controller is None or key != controller.bytes]
        return HeldReplicas(held, moving, arrived, summed(others) if with_led else b"", self._is_settled())


def _read_report(value: Any) -> HeldReplicas:
    """Return the report in an answer. Raises `Unavailable` if it is malformed."""
    try:
        held, moving, arrived, led, *added = value
        return HeldReplicas(
            held,
            {key: MovingPartition(tuple(missing), tuple(former)) for key, missing, former, *_ in moving},
            arrived,
            led,
            added[0] if added else True,  # an older release does not report it
        )
    except (TypeError, ValueError):
        raise Unavailable("an answer about moving partitions cannot be read") from None
