"""Use of client quotas: a token bucket for each client that a quota limits (KIP-13, KIP-124, KIP-612).

    tokens ≤ 1 s of the rate, or 1;   a request may make tokens negative, and its client waits until they are 0 again

So the mean rate is the quota, whatever the size of the requests, and a client delays nobody but itself. Each broker
counts for itself, as in Kafka. Without quotas `is_on` is false, and API servers ask nothing else."""

import time
from collections.abc import Callable
from typing import Final, NamedTuple

from raftlog.partitions.caller import Caller
from raftlog.partitions.security.quotas import Quotas

PRODUCED: Final = "producer_byte_rate"
FETCHED: Final = "consumer_byte_rate"
REQUESTS: Final = "request_percentage"
"""Quota on the time in which the event loop serves requests, in percent of it."""
CONNECTIONS: Final = "connection_creation_rate"
DELAY_S_MAX: Final = 30.0
"""Longest delay; tokens do not fall below it."""
CLIENTS_MAX: Final = 10_000
"""Clients whose tokens are kept; when there are more, those without a delay are dropped, or else the oldest half."""
_PER_CLIENT: Final = (PRODUCED, FETCHED, REQUESTS)
_Key = tuple[str, tuple[tuple[str, str], ...]]


class RateBucket:
    """Token bucket of one client. `rate` is in units per second."""

    __slots__ = ("_filled_at", "_tokens", "rate")

    def __init__(self, rate: float, now: float) -> None:
        self.rate = rate
        self._tokens, self._filled_at = max(rate, 1.0), now

    def take(self, amount: float, now: float) -> None:
        """Take the tokens of a request that was served."""
        self._fill(now)
        self._tokens = max(self._tokens - amount, -DELAY_S_MAX * self.rate)

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
        self._tokens = min(max(self.rate, 1.0), self._tokens + (now - self._filled_at) * self.rate)
        self._filled_at = now


class ClientQuota(NamedTuple):
    """Rate that limits a client, and the names that share it."""

    rate: float
    shared_by: tuple[tuple[str, str], ...]


class ClientRates:
    """Rates of all clients of one broker; without `quotas` never on. `clock` returns seconds."""

    def __init__(self, quotas: Quotas | None, clock: Callable[[], float] = time.monotonic) -> None:
        self.is_on = False
        """Whether there is any quota."""
        self._quotas, self._clock = quotas, clock
        self._found: dict[tuple[str, str, str], RateBucket | None] = {}
        self._buckets: dict[_Key, RateBucket] = {}

    def refresh(self) -> None:
        """Follow changed quotas."""
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
        """Return the seconds that a client has to wait, because of these quotas or any."""
        now = self._clock()
        buckets = [self._bucket_of(quota, caller) for quota in quotas or _PER_CLIENT]
        return max((bucket.delay_s(now) for bucket in buckets if bucket is not None), default=0.0)

    def admits(self, address: str) -> bool:
        """Count a new connection from an address; return whether its quota allows it."""
        rate = None if self._quotas is None else self._quotas.connection_rate(address)
        if rate is None:
            return True
        return self._shared(CONNECTIONS, ClientQuota(rate, (("ip", address),))).maybe_take(self._clock())

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
            bucket = self._buckets[key] = RateBucket(found.rate, now)
        bucket.rate = found.rate
        return bucket

    def _drop_some(self, now: float) -> None:
        delayed = [key for key, bucket in self._buckets.items() if bucket.delay_s(now) > 0][-CLIENTS_MAX // 2 :]
        self._buckets = {key: self._buckets[key] for key in delayed}
        self._found.clear()


UNLIMITED: Final = ClientRates(None)
"""Rates without any quota."""
