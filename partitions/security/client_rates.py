"""Rates of clients against their quotas: a token bucket for each limited client (KIP-13, KIP-124, KIP-599, KIP-612).

    tokens ≤ 1 s of the rate, or 1;   a request may make tokens negative, and its client waits until they are 0 again

So the mean rate is the quota, whatever the size of the requests, and a client delays nobody but itself. Each broker
counts for itself, as in Kafka. Without quotas `is_on` is false, and API servers make no other call."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

from raftlog.errors import Overloaded, RaftlogError
from raftlog.partitions.caller import Caller
from raftlog.partitions.security.quotas import Quotas

PRODUCED: Final = "producer_byte_rate"
FETCHED: Final = "consumer_byte_rate"
REQUESTS: Final = "request_percentage"
"""Quota on the time in which the event loop serves requests, in percent of it."""
CONNECTIONS: Final = "connection_creation_rate"
MUTATIONS: Final = "controller_mutation_rate"
"""Quota on partitions that are created or deleted, per second."""
DELAY_S_MAX: Final = 30.0
"""Longest delay; tokens do not fall below it, except those of `MUTATIONS`."""
CLIENTS_MAX: Final = 10_000
"""Clients whose tokens are kept; when there are more, those without a delay are dropped, or else the oldest half."""
PER_CLIENT: Final = (PRODUCED, FETCHED, REQUESTS)
"""Quotas that delay any request of a client."""
LIMITED: Final = (*PER_CLIENT, MUTATIONS, CONNECTIONS)
_Key = tuple[str, tuple[tuple[str, str], ...]]
"""Name of a quota, and the names of the client that share it."""


class QuotaExceeded(Overloaded):
    """The client is above a quota; it may retry after `retry_after_s` seconds."""

    def __init__(self, message: str, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class RateBucket:
    """Token bucket of one client, filled with `rate` tokens per second.

    `debt_s_max`: longest delay, in seconds, that a single large request can cause."""

    __slots__ = ("_debt_s_max", "_filled_at", "_tokens", "rate")

    def __init__(self, rate: float, now: float, debt_s_max: float = DELAY_S_MAX) -> None:
        self.rate, self._debt_s_max = rate, debt_s_max
        self._tokens, self._filled_at = max(rate, 1.0), now

    def take(self, amount: float, now: float) -> None:
        """Take the tokens of a request that was served; a negative amount returns tokens."""
        self._fill(now)
        self._tokens = max(self._tokens - amount, -self._debt_s_max * self.rate)

    def delay_s(self, now: float) -> float:
        """Return the seconds until tokens are not negative; 0 if they are not."""
        self._fill(now)
        return max(0.0, -self._tokens / self.rate)

    def maybe_take(self, now: float) -> bool:
        """Take one token if there is one; return whether there was."""
        self._fill(now)
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def _fill(self, now: float) -> None:
        """Add the tokens since the last call; the bucket holds those of one second."""
        self._tokens = min(max(self.rate, 1.0), self._tokens + (now - self._filled_at) * self.rate)
        self._filled_at = now


class ClientQuota(NamedTuple):
    """Rate that limits a client, and the names that share it."""

    rate: float
    shared_by: tuple[tuple[str, str], ...]


class ClientRates:
    """Rates at which the clients of one broker use their quotas; inactive without `quotas`. `clock` returns seconds."""

    def __init__(self, quotas: Quotas | None, clock: Callable[[], float] = time.monotonic) -> None:
        """Measure rates against `quotas`, None for no limits; `clock` returns seconds."""
        self.is_on = False
        """Whether there is any quota."""
        self._quotas, self._clock = quotas, clock
        self._found: dict[tuple[str, str, str], RateBucket | None] = {}
        self._buckets: dict[_Key, RateBucket] = {}
        self.throttles = dict.fromkeys(LIMITED, 0)
        """Requests that were delayed or refused, by quota."""
        self.throttled_s = dict.fromkeys(LIMITED, 0.0)
        """Seconds of these delays, and those until a refused request may be repeated."""

    def refresh(self) -> None:
        """Apply changed quotas to the present rates."""
        self.is_on = self._quotas is not None and self._quotas.has_any
        self._found.clear()
        if not self.is_on:
            self._buckets.clear()

    def charge(self, quota: str, caller: Caller, amount: float) -> None:
        """Count bytes, or seconds of time for `REQUESTS`, of a client."""
        bucket = self._bucket_of(quota, caller)
        if bucket is not None:
            bucket.take(amount * 100 if quota == REQUESTS else amount, self._clock())

    def delay_s(self, caller: Caller, *quotas: str) -> float:
        """Return the seconds that a client has to wait because of one of these quotas (if none is named: of any)."""
        return self._longest(caller, quotas)[0]

    def throttle_s(self, caller: Caller, *quotas: str) -> float:
        """Return the seconds for which the client has to be delayed, and count them for metrics."""
        delay_s, quota = self._longest(caller, quotas)
        if delay_s > 0:
            self._count(quota, delay_s)
        return delay_s

    def _longest(self, caller: Caller, quotas: Sequence[str]) -> tuple[float, str]:
        """Return the longest delay, and its quota."""
        now, longest = self._clock(), (0.0, "")
        for quota in quotas or PER_CLIENT:
            bucket = self._bucket_of(quota, caller)
            if bucket is not None and (delay_s := bucket.delay_s(now)) > longest[0]:
                longest = delay_s, quota
        return longest

    def _count(self, quota: str, delay_s: float) -> None:
        """Count a delayed or refused request, for metrics."""
        self.throttles[quota] += 1
        self.throttled_s[quota] += delay_s

    @contextmanager
    def mutation(self, caller: Caller, partitions: int, *, is_strict: bool = True) -> Iterator[None]:
        """Count partitions that a client creates or deletes in this block.

        They do not count if the block fails with outcome `failed`. With `is_strict`, raise `QuotaExceeded` while
        earlier changes of the client exceed its quota."""
        bucket = self._bucket_of(MUTATIONS, caller) if self.is_on else None
        if bucket is None:
            yield
            return
        delay_s = bucket.delay_s(self._clock())
        if is_strict and delay_s > 0:
            self._count(MUTATIONS, delay_s)
            raise QuotaExceeded(
                f"{caller.principal} exceeded its quota of changed partitions ({MUTATIONS}); retry after "
                f"{math.ceil(delay_s)} s",
                delay_s,
            )
        bucket.take(partitions, self._clock())
        try:
            yield
        except RaftlogError as error:
            if error.outcome == "failed":
                bucket.take(-partitions, self._clock())
            raise

    def admits(self, address: str) -> bool:
        """Count a new connection from an address; return whether its quota allows it."""
        rate = None if self._quotas is None else self._quotas.connection_rate(address)
        if rate is None:
            return True
        is_admitted = self._shared(CONNECTIONS, ClientQuota(rate, (("ip", address),))).maybe_take(self._clock())
        if not is_admitted:
            self._count(CONNECTIONS, 0.0)
        return is_admitted

    def _bucket_of(self, quota: str, caller: Caller) -> RateBucket | None:
        """Return the bucket for a client; None without a quota."""
        key = quota, caller.principal, caller.client_id
        try:
            return self._found[key]
        except KeyError:
            pass
        if len(self._found) >= CLIENTS_MAX:
            self._found.clear()
        found = None if self._quotas is None else self._quotas.find(*key)
        bucket = self._found[key] = None if found is None else self._shared(quota, ClientQuota(*found))
        return bucket

    def _shared(self, quota: str, found: ClientQuota) -> RateBucket:
        """Return the bucket of all clients that share a quota, with its present rate."""
        key, now = (quota, found.shared_by), self._clock()
        bucket = self._buckets.get(key)
        if bucket is None:
            if len(self._buckets) >= CLIENTS_MAX:
                self._drop_some(now)
            debt_s_max = math.inf if quota == MUTATIONS else DELAY_S_MAX
            bucket = self._buckets[key] = RateBucket(found.rate, now, debt_s_max)
        bucket.rate = found.rate
        return bucket

    def _drop_some(self, now: float) -> None:
        """Drop the buckets that cause no delay; of the others keep the newest, at most `CLIENTS_MAX // 2`."""
        delayed = [key for key, bucket in self._buckets.items() if bucket.delay_s(now) > 0][-CLIENTS_MAX // 2 :]
        self._buckets = {key: self._buckets[key] for key in delayed}
        self._found.clear()


UNLIMITED: Final = ClientRates(None)
"""Rates without any quota."""
