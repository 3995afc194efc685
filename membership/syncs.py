"""Partners and times of digest exchanges: random members, addresses without a known member, unknown senders.

    sync_at     a random member, every `sync_interval_s` on average; sooner after an exchange with new claims
    join_at     the next address without a known member, every `join_interval_s`
    strangers   an unknown process that pings this member, at most every `strangers_interval_s`

Called by the machine."""

import math
from collections.abc import Iterable
from random import Random
from typing import Final

from raftlog.membership import exchange
from raftlog.membership.config import SwimConfig
from raftlog.membership.member import Address
from raftlog.membership.outbox import GossipOutbox
from raftlog.membership.view import MembershipView

ADDRESSES_MAX: Final = 4_096
JOINS_AT_ONCE: Final = 3


class Syncs:
    """Schedule of the exchanges of digests with other members.

    `due` is the time of the next `tick`: of an exchange with a random member or with the next address."""

    def __init__(self, view: MembershipView, outbox: GossipOutbox, config: SwimConfig, random: Random) -> None:
        """Prepare syncs, which begin with `start`; all times are infinite before."""
        self._view = view
        self._outbox = outbox
        self._config = config
        self._random = random
        self._addresses: list[Address] = []
        self._sync_at = self._join_at = self.due = math.inf
        self._strangers_at = -math.inf
        self.count = 0

    def start(self, now: float) -> None:
        """Schedule the first exchange with a random member."""
        self._sync_at = now + self._random.random() * self._config.sync_interval_s
        self._set_due()

    def stop(self) -> None:
        """Begin no more exchanges."""
        self._sync_at = self._join_at = self.due = math.inf

    def join(self, addresses: Iterable[Address], now: float) -> None:
        """Set the addresses to try, and try some of them at once."""
        self._addresses = list(dict.fromkeys(addresses))[:ADDRESSES_MAX]
        self._random.shuffle(self._addresses)
        for _ in range(JOINS_AT_ONCE):
            self._join_next(now)
        self._set_due()

    def move_forward(self, now: float) -> None:
        """Schedule the next exchange earlier, because the last one had new claims, and there may be more."""
        self._sync_at = min(self._sync_at, now + self._config.join_interval_s)
        self._set_due()

    def sync_with_unknown(self, address: Address, now: float) -> None:
        """Begin an exchange with an unknown process that pings this member, which may have lost its state."""
        if now >= self._strangers_at:
            self._strangers_at = now + self._config.strangers_interval_s
            self._sync(address, now)

    def tick(self, now: float) -> None:
        """Begin the exchanges that are due."""
        if now >= self._sync_at:
            self._sync_at = now + self._config.sync_interval_s * self._random.uniform(0.5, 1.5)
            for partner in self._view.roster.draw(self._random, 1):
                self._sync(self._view.roster.member(partner).address, now)
        if now >= self._join_at:
            self._join_next(now)
        self._set_due()

    def _join_next(self, now: float) -> None:
        """Try the next address without a known member; dead members count as known, since they are pinged."""
        taken = {member.address for member in self._view.roster}
        free = [address for address in self._addresses if address not in taken]
        self._join_at = now + (self._config.join_interval_s if free else self._config.sync_interval_s)
        if free:
            self._addresses.remove(free[0])
            self._addresses.append(free[0])
            self._sync(free[0], now)

    def _sync(self, address: Address, now: float) -> None:
        """Queue a stream for an exchange of digests with the process at this address."""
        self.count += 1
        self._outbox.open_stream(address, exchange.first_messages(self._view, now), self._config.stream_timeout_s)

    def _set_due(self) -> None:
        """Set `due` to the next exchange, periodic or to join."""
        self.due = min(self._sync_at, self._join_at)
