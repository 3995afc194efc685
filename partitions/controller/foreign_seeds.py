"""Detection of seeds of another cluster, by a broker that is alone in its own cluster.

A broker that was started without seeds has founded a cluster of one. Restarted with the intended seeds, it would
continue as that cluster, beside the other one, and both would be healthy. So before it is ready it probes its seeds
once; a seed that does not answer is ignored, because it may be a broker that is to join this one.

    no seed of another cluster                         it continues
    one, and the own cluster has topics                `IdentityRefused`: the process ends, nothing is changed
    one, and the own cluster has none                  it waits, probes again, and logs the reason regularly

Called by the host, once."""

import asyncio
import logging
from collections.abc import Callable

from raftlog.errors import IdentityRefused, RaftlogError
from raftlog.events import event
from raftlog.partitions.addresses import Address, address_text
from raftlog.partitions.controller.first_start import JOIN, REPEAT_MS
from raftlog.partitions.controller.machine import ControllerState
from raftlog.partitions.controller.settings import MetadataSettings
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.node import Node
from raftlog.runtime.rpc.errors import HandshakeRefused
from raftlog.runtime.rpc.handshake import Reason

_logger = logging.getLogger(__name__)


class ForeignSeeds:
    """Check that no seed in this broker's configuration belongs to another cluster.

    `state` returns the copy of the controller's state, which has to be up to date."""

    def __init__(self, node: Node, settings: MetadataSettings, state: Callable[[], ControllerState]) -> None:
        """Prepare the check whether the seeds belong to another cluster.

        `state` returns the controller's state here."""
        self._node, self._settings, self._state = node, settings, state

    async def check(self) -> None:
        """Return once no answering seed belongs to another cluster. Raises `IdentityRefused`; see the module."""
        logged_at = float("-inf")
        while self._is_alone() and (found := await self._find_foreign()) is not None:
            address, why = found
            if self._state().topic_names():
                raise IdentityRefused(f"{why}. {self._advice_with_topics()}")
            now = self._node.loop.time()
            if now - logged_at >= REPEAT_MS / 1000:
                logged_at = now
                event(_logger, "seed_of_another_cluster", node=self._node.identity.node_id, address=address, why=why)
                _logger.error("%s. %s", why, self._advice_without_topics())
            await self._node.pause(deadline_in(self._settings.look_ms_max))

    def _is_alone(self) -> bool:
        """Return whether the cluster has only this broker, and no seed that is still to register."""
        state = self._state()
        return len(state.brokers) == 1 and not any(state.absent_seeds())

    async def _find_foreign(self) -> tuple[str, str] | None:
        """Return the first seed of another cluster and the text of its refusal; None without one."""
        seen = await asyncio.gather(*map(self._probe, self._settings.seeds))
        return next((each for each in seen if each is not None), None)

    async def _probe(self, seed: Address) -> tuple[str, str] | None:
        """Return address and problem of a seed of another cluster; None for other and unreachable seeds."""
        address = address_text(seed)
        try:
            await self._node.probe(seed, JOIN, None, deadline_in(self._settings.probe_ms))
        except HandshakeRefused as refusal:
            if refusal.reason == Reason.CLUSTER_ID:
                return address, f"the seed {address} belongs to another cluster: {refusal}"
        except (RaftlogError, OSError) as error:
            _logger.debug("%s: %s", address, error)
        return None

    def _advice_with_topics(self) -> str:
        """Return the advice for an operator if the broker's own cluster has topics."""
        directory, count = self._node.settings.data_dir, len(self._state().topic_names())
        return (
            f"{directory} holds {count} topics of its own cluster {self._node.identity.cluster_id}. To serve them, "
            "start this broker without these seeds; to join the other cluster, start it with an empty --data-dir"
        )

    def _advice_without_topics(self) -> str:
        """Return the advice for an operator if the broker's own cluster has no topics."""
        identity = self._node.identity
        return (
            f"Node {identity.node_id} founded cluster {identity.cluster_id} alone, which has no topics, and does not "
            f"serve it while it has these seeds. To join the other cluster, stop this broker, delete "
            f"{self._node.settings.data_dir}, and start it again; to keep its own, start it without these seeds"
        )
