"""Registration of this broker at the controller: once with each start, and again when the feature level rises.

Below the feature level of an address the broker registers without it. When the level rises, the broker registers again
with all of its addresses, without a restart. Called by the host."""

import logging
from asyncio import Task, wait
from dataclasses import replace
from uuid import UUID

from raftlog.errors import IdentityRefused, InvalidArgument, RaftlogError
from raftlog.partitions.controller.local_copy import LocalCopy
from raftlog.partitions.controller.machine import Addresses, RegisterBroker
from raftlog.partitions.controller.proposals import CommandProposals
from raftlog.partitions.controller.settings import MetadataSettings
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.node import Node
from raftlog.types import FEATURE_LEVEL_KNOWN, FEATURE_LEVEL_LEAST

_logger = logging.getLogger(__name__)


class BrokerRegistration:
    """Registration of this process as a broker. The host sets `addresses` at its start; they do not change later."""

    def __init__(self, node: Node, copy: LocalCopy, proposals: CommandProposals, settings: MetadataSettings) -> None:
        """Prepare the registration of this broker, whose addresses are not known yet."""
        self._node, self._copy, self._proposals, self._settings = node, copy, proposals, settings
        self.addresses = Addresses("", "", "")
        self._again: Task[None] | None = None

    def command(self, replaces: UUID | None = None) -> RegisterBroker:
        """Return the command that registers this broker, with the addresses that the cluster's feature level allows."""
        identity = self._node.identity
        return RegisterBroker(
            identity.node_id,
            identity.disk_uuid,
            identity.boot_epoch,
            self._node.settings.host_label,
            self._allowed_addresses(),
            FEATURE_LEVEL_LEAST,
            FEATURE_LEVEL_KNOWN,
            replaces=replaces,
        )

    def _allowed_addresses(self) -> Addresses:
        """Return the addresses without Kafka's listeners if the feature level is too low for them."""
        is_allowed = self.addresses.level_needed() <= self._copy.state.feature_level
        return self.addresses if is_allowed else replace(self.addresses, kafka=())

    @property
    def has_moved(self) -> bool:
        """Whether this broker is registered under another RPC address, at which others cannot reach it."""
        registered = self._copy.state.broker_of(self._node.identity.replica)
        return registered is not None and registered.addresses.rpc != self.addresses.rpc

    @property
    def lacks_addresses(self) -> bool:
        """Whether the registration of this start lacks addresses that the feature level allows now."""
        identity = self._node.identity
        registered = self._copy.state.broker_of(identity.replica)
        if registered is None or registered.boot_epoch != identity.boot_epoch:
            return False
        return registered.addresses != self._allowed_addresses()

    async def register(self) -> None:
        """Register this broker: repeat the command until it succeeds. A repetition changes nothing.

        Raises `IdentityRefused` and `InvalidArgument`."""
        while True:
            try:
                await self._proposals.submit(self.command(), deadline_in(10 * self._settings.attempt_ms))
                return
            except (IdentityRefused, InvalidArgument):
                raise
            except RaftlogError as error:
                _logger.info("node %s is not registered yet: %s", self._node.identity.node_id, error)
            await self._node.pause(deadline_in(self._settings.look_ms))

    def register_missing_addresses(self) -> None:
        """Register again if the feature level allows addresses that are missing; called after the start."""
        is_running = self._again is not None and not self._again.done()
        if not is_running and self.lacks_addresses and self._node.is_working:
            self._again = self._node.loop.create_task(self._register_or_fail(), name="registration of added addresses")

    async def _register_or_fail(self) -> None:
        """Register this broker; a refusal ends the node."""
        try:
            await self.register()
        except RaftlogError as error:
            self._node.fail(error)

    def log_withheld(self) -> None:
        """Log the addresses that are registered only after the feature level is raised."""
        if self._allowed_addresses() != self.addresses:
            _logger.warning(
                "clients of the Kafka protocol get no addresses below feature level %s, and the cluster runs at %s: "
                "finish the upgrade (`raftlog cluster upgrade --finish`)",
                self.addresses.level_needed(),
                self._copy.state.feature_level,
            )

    async def stop(self) -> None:
        """Stop a running registration."""
        if self._again is not None:
            self._again.cancel()
            await wait([self._again])
