"""Which partitions are on their way: asked of all brokers at once, for only a partition's leader knows.

    on its way: from its new assignment until its leader says that its committed members are just those

A leader names the partitions that it leads and whose members are not what they shall be, and of those that it is asked
about the ones that are. It says so by a copy of the controller's state that has everything the asker's has. What nobody
who leads it has denied is still on its way. Asked by the balancer, served by every broker.
"""

import asyncio
import logging
from collections.abc import Collection, Iterable
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
"""Partitions in one question or answer."""
_KNOW_S_MAX: Final = 0.5
"""A broker waits so long at most until its copy of the state has what the asker's has …"""
_KNOW_PAUSE_S: Final = 0.01
"""… and looks so often."""


class Way(NamedTuple):
    """A partition on its way: the brokers that it waits for, most of which do not vote yet; those that vote still and
    shall not."""

    missing: tuple[NodeId, ...]
    former: tuple[NodeId, ...]


class HeldReplicas(NamedTuple):
    """What a broker says. `held`: how many replicas it has, group 0 not counted."""

    held: int
    moving: dict[GroupKey, Way]
    arrived: list[GroupKey]
    led: bytes
    """`summed` over the groups that it leads, group 0 not counted; empty where that was not asked for."""


def summed(keys: Iterable[GroupKey]) -> bytes:
    """As good for comparing sets of groups as the groups: one that is there twice, or missing, makes another sum."""
    return (sum(int.from_bytes(key) for key in keys) % (1 << 128)).to_bytes(16)


class BrokerProgress:
    """Both sides of one process."""

    def __init__(self, node: Node, metadata: ControllerHost, moves: Moves) -> None:
        self._node, self._metadata, self._moves = node, metadata, moves
        node.on_request(MOVING, self._serve)

    async def ask(
        self, nodes: Iterable[NodeId], asked: Collection[GroupKey], deadline: Deadline, *, with_led: bool
    ) -> dict[NodeId, HeldReplicas | None]:
        """What each says; None of one that does not answer, or not by the state of now."""
        nodes = list(nodes)
        header = [int(self._metadata.state.applied_index), list(asked)[:NAMED_MAX], with_led]
        answers = await asyncio.gather(*(self._ask(node, header, deadline) for node in nodes))
        return dict(zip(nodes, answers, strict=True))

    async def _ask(self, node: NodeId, header: list[Any], deadline: Deadline) -> HeldReplicas | None:
        try:
            return _told((await self._node.ask(node, MOVING, header, (), deadline)).value)
        except RaftlogError as error:
            _logger.debug("node %s does not say what moves: %s", node, error)
            return None

    async def _serve(self, request: Request) -> Answer:
        told = await self._tell(request.header, request.deadline)
        moving = [[key, *map(list, way)] for key, way in told.moving.items()]
        return Answer([told.held, moving, told.arrived, told.led])

    async def _tell(self, header: Any, deadline: Deadline) -> HeldReplicas:
        match header:
            case [int(index), [*keys], bool(with_led)] if all(type(key) is bytes for key in keys[:NAMED_MAX]):
                pass
            case _:
                raise InvalidArgument(f"a request {MOVING!r} that cannot be read")
        loop = self._node.loop
        until = Deadline(min(deadline, loop.time() + _KNOW_S_MAX))
        while self._metadata.state.applied_index < index or not self._moves.is_compared:
            if loop.time() >= until or self._node.ended.done():
                raise Unavailable(f"node {self._node.identity.node_id} does not know the newest assignments yet")
            await self._node.pause(Deadline(loop.time() + _KNOW_PAUSE_S))
        groups, differing = self._node.driver.groups, self._moves.differing()
        moving = {}
        for group, wanted in differing[:NAMED_MAX]:
            voters = group.core.configuration.all_voters()
            missing = tuple(replica.node_id for replica in self._moves.awaited(group, wanted))
            moving[group.key] = Way(missing, tuple(voter.node_id for voter in voters if voter not in wanted))
        differ = {group.key for group, _ in differing}
        here = [(key, groups[key]) for key in keys[:NAMED_MAX] if key in groups and key not in differ]
        arrived = [key for key, group in here if group.core.has_own_term_commit]
        controller = self._metadata.group_id
        held = len(groups) - (controller is not None and controller.bytes in groups)
        led = [key for key, group in groups.items() if group.core.has_own_term_commit] if with_led else []
        others = [key for key in led if controller is None or key != controller.bytes]
        return HeldReplicas(held, moving, arrived, summed(others) if with_led else b"")


def _told(value: Any) -> HeldReplicas:
    """Raises `Unavailable` for what cannot be read."""
    try:
        held, moving, arrived, led, *_ = value
        return HeldReplicas(
            held, {key: Way(tuple(missing), tuple(former)) for key, missing, former, *_ in moving}, arrived, led
        )
    except (TypeError, ValueError):
        raise Unavailable("an answer about moving partitions that cannot be read") from None
