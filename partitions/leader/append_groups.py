"""Groups of appends to one partition that are proposed together.

    arrived in one turn → few bytes of the partition in flight → proposed at the end of the turn
                        → BUSY_BYTES in flight                 → gathered, until GROUP_BYTES are gathered, fewer bytes
                                                                 are in flight, or GATHER_S have passed

A proposal has a price at each replica: a turn, a message, a write, a sync. How many appends arrive in one turn depends
on the client and on TLS, so a busy partition gathers more of them. The bytes are those of all its clients. Used by
`appends`."""

import asyncio
from collections.abc import Callable
from typing import Final

from raftlog.partitions.leader.enlistments import LeaderAppend
from raftlog.partitions.replica import Replica

BUSY_BYTES: Final = 384 * 1024
"""Bytes in flight from which on the appends of a partition wait for others: more than five batches of 64 KiB, since a
producer of Kafka has five requests in flight (`max.in.flight.requests.per.connection`)."""
GROUP_BYTES: Final = 256 * 1024
"""Gathered bytes that are proposed in any case."""
GATHER_S: Final = 0.01
"""Maximum time for which appends are gathered."""


class AppendGroups:
    """Gathered appends of all partitions; each group is passed to `propose`, in the order of `add`."""

    def __init__(self, propose: Callable[[Replica, list[LeaderAppend]], None]) -> None:
        self._propose = propose
        self._loop = asyncio.get_running_loop()
        self._gathered: dict[Replica, list[LeaderAppend]] = {}
        self._in_flight: dict[Replica, int] = {}
        """Bytes of proposed appends without an outcome."""
        self._is_due = False
        """Whether the gathered appends are considered at the end of this turn."""
        self._timer: asyncio.TimerHandle | None = None

    def add(self, append: LeaderAppend) -> None:
        """Gather an append; it is proposed at the end of this turn of the loop, or soon."""
        gathered = self._gathered.get(append.replica)
        if gathered is None:
            self._gathered[append.replica] = [append]
        else:
            gathered.append(append)
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._propose_groups)

    def take(self, replica: Replica) -> list[LeaderAppend]:
        """Remove the gathered appends of a replica, and return them."""
        return self._gathered.pop(replica, [])

    def note_proposed(self, replica: Replica, size: int) -> None:
        """Count bytes that are in flight from now on."""
        self._in_flight[replica] = self._in_flight.get(replica, 0) + size

    def note_ended(self, replica: Replica, size: int) -> None:
        """Count bytes that are in flight no more, and let the replica's gathered appends follow."""
        left = self._in_flight.pop(replica) - size
        if left:
            self._in_flight[replica] = left
        if replica in self._gathered and not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._propose_groups)

    def close(self) -> list[LeaderAppend]:
        """Stop, and return the gathered appends."""
        if self._timer is not None:
            self._timer.cancel()
        gathered, self._gathered = self._gathered, {}
        return [append for appends in gathered.values() for append in appends]

    def _propose_groups(self) -> None:
        """Propose the groups of partitions that have few bytes in flight, and those that are large enough."""
        self._is_due = False
        gathered, self._gathered = self._gathered, {}
        for replica, appends in gathered.items():
            is_busy = self._in_flight.get(replica, 0) >= BUSY_BYTES
            if is_busy and sum([each.size for each in appends]) < GROUP_BYTES:
                self._gathered[replica] = appends
            else:
                self._propose(replica, appends)
        if self._gathered and self._timer is None:
            self._timer = self._loop.call_later(GATHER_S, self._propose_late)

    def _propose_late(self) -> None:
        """Propose all groups, because the oldest has waited for `GATHER_S`."""
        self._timer = None
        gathered, self._gathered = self._gathered, {}
        for replica, appends in gathered.items():
            self._propose(replica, appends)
