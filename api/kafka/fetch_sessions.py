"""Fetch sessions (KIP-227) of one listener: their ids, epochs, bounds and ends.

    sessions ≤ SESSIONS_MAX,   partitions of all sessions ≤ PARTITIONS_MAX
    epoch of the next request = epoch of the last one + 1;   after the largest epoch comes 1

If there is no room for a new session, one is evicted, as in Kafka: the session that was unused for the longest time, if
that is more than `EVICTION_S`; else the smallest session that is older than `EVICTION_S` and smaller than the new one.
If there is none, the client continues without a session. A session also ends with the connection that used it last. It
belongs to one principal; others do not find it. Used by the handler of Fetch."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final

from raftlog.api.kafka.api import RequestConnection
from raftlog.partitions.counters import KafkaCounters
from raftlog.partitions.leader.session_fetch import SessionFetch

SESSIONS_MAX: Final = 1_000
"""Sessions, as Kafka's `max.incremental.fetch.session.cache.slots`."""
PARTITIONS_MAX: Final = 100_000
"""Partitions of all sessions; each takes about 400 bytes."""
EVICTION_S: Final = 120.0
"""Idle time after which a session may be evicted for any new one, and age after which for a larger one."""
_ID_MAX: Final = (1 << 31) - 1
_EPOCH_MAX: Final = (1 << 31) - 1
FIRST_EPOCH: Final = 1
"""Epoch of the first request after the one that began the session."""


class FetchSession:
    """Fetch session of one client (KIP-227); `fetch` has its partitions."""

    __slots__ = ("connection", "created_s", "epoch", "fetch", "id", "is_busy", "principal", "size", "topics", "used_s")

    def __init__(self, number: int, principal: str, fetch: SessionFetch, now_s: float) -> None:
        """Create the session with id `number`, which belongs to `principal`."""
        self.id = number
        self.principal = principal
        self.fetch = fetch
        self.topics: set[str] = set()
        """Topics of partitions that were ever in the session."""
        self.connection: RequestConnection | None = None
        self.epoch = FIRST_EPOCH
        """Epoch that the next request must have."""
        self.is_busy = False
        """Whether a request is in progress."""
        self.size = 0
        """Number of partitions when they were last counted."""
        self.created_s = self.used_s = now_s

    def advance(self) -> None:
        """Raise the epoch that the client's next request has to have."""
        self.epoch = FIRST_EPOCH if self.epoch == _EPOCH_MAX else self.epoch + 1


class FetchSessions:
    """Fetch sessions of one listener. `begin_fetch` makes the fetch of a new session."""

    def __init__(self, begin_fetch: Callable[[], SessionFetch], random: Random, counters: KafkaCounters) -> None:
        """Create no sessions yet; `begin_fetch` creates the fetch of a new one, and `random` draws its id."""
        self._begin_fetch, self._random, self._counters = begin_fetch, random, counters
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        """Sessions by id, the one that was used last at the end."""
        self._by_connection: dict[RequestConnection, set[FetchSession]] = {}
        self._partition_count = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partition_count(self) -> int:
        """Number of partitions of all sessions."""
        return self._partition_count

    def create(self, size: int, principal: str, connection: RequestConnection | None) -> FetchSession | None:
        """Return a new session, to which `size` partitions will be added; None if there is no room for it."""
        if size > PARTITIONS_MAX:
            return None
        now_s = _now_s()
        while len(self._sessions) >= SESSIONS_MAX or self._partition_count + size > PARTITIONS_MAX:
            victim = self._victim(size, now_s)
            if victim is None:
                return None
            self._counters.fetch_sessions_evicted += 1
            self.remove(victim)
        number = self._random.randint(1, _ID_MAX)
        while number in self._sessions:
            number = self._random.randint(1, _ID_MAX)
        session = self._sessions[number] = FetchSession(number, principal, self._begin_fetch(), now_s)
        self._counters.fetch_sessions += 1
        self._attach(session, connection)
        return session

    def _victim(self, size: int, now_s: float) -> FetchSession | None:
        """Return the session to evict for a new one with `size` partitions; None if none may be evicted."""
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None or now_s - oldest.used_s > EVICTION_S:
            return oldest
        old = (each for each in self._sessions.values() if now_s - each.created_s > EVICTION_S and each.size < size)
        return min(old, key=lambda each: (each.size, each.id), default=None)

    def find(self, number: int, principal: str) -> FetchSession | None:
        """Return the session with this id; None if it is unknown, or of another principal."""
        session = self._sessions.get(number)
        return session if session is not None and session.principal == principal else None

    def use(self, session: FetchSession, connection: RequestConnection | None) -> None:
        """Mark the session as most recently used, and attach it to the connection of the request."""
        session.used_s = _now_s()
        self._sessions.move_to_end(session.id)
        if connection is not session.connection:
            self._detach(session)
            self._attach(session, connection)

    def count(self, session: FetchSession) -> bool:
        """Update the partition count of a session; return whether all sessions together are within `PARTITIONS_MAX`.

        Otherwise the session is removed."""
        size = len(session.fetch)
        self._add_partitions(size - session.size)
        session.size = size
        if self._partition_count <= PARTITIONS_MAX:
            return True
        self._counters.fetch_sessions_evicted += 1
        self.remove(session)
        return False

    def remove(self, session: FetchSession) -> None:
        """End a session, unless it has ended."""
        if self._sessions.get(session.id) is not session:
            return
        del self._sessions[session.id]
        self._counters.fetch_sessions -= 1
        self._add_partitions(-session.size)
        self._detach(session)
        session.fetch.close()

    def _add_partitions(self, count: int) -> None:
        """Add to the number of partitions of all sessions; `count` may be negative."""
        self._partition_count += count
        self._counters.fetch_session_partitions += count

    def _attach(self, session: FetchSession, connection: RequestConnection | None) -> None:
        """Register the connection of a session; the session ends with its connection."""
        session.connection = connection
        if connection is None:
            return
        sessions = self._by_connection.get(connection)
        if sessions is None:
            sessions = self._by_connection[connection] = set()
            connection.lost_callbacks.append(partial(self._remove_all_of, connection))
        sessions.add(session)

    def _detach(self, session: FetchSession) -> None:
        """Remove the session from those of its connection."""
        if session.connection is not None:
            self._by_connection[session.connection].discard(session)
            session.connection = None

    def _remove_all_of(self, connection: RequestConnection) -> None:
        """Remove the sessions of a connection that was lost."""
        for session in list(self._by_connection[connection]):
            self.remove(session)
        del self._by_connection[connection]


def _now_s() -> float:
    """Return the time of the event loop."""
    return asyncio.get_running_loop().time()
