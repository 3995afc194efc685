"""Limit of failed logins for each address, without clock or I/O: a token bucket that only failures empty.

    -WAITING_MAX ≤ tokens ≤ BURST

While an address has no token, each further attempt reserves a token of the future and waits for it, so that clients
with the right password behind the same address are slowed down, but not locked out. Used by `authenticator`."""

import ipaddress
import math
from collections import OrderedDict
from typing import Final

BURST: Final = 20
"""Failed logins of one address without any delay."""
RATE_PER_S: Final = 2.0
"""Failed logins per second of one address, beyond the burst."""
WAITING_MAX: Final = 20
"""Attempts of one address that wait; further ones are refused at once."""
ADDRESSES_MAX: Final = 10_000
"""Addresses that are remembered; beyond them the one whose last failure is oldest is forgotten."""
_IPV6_PREFIX: Final = 64
"""An IPv6 client commonly has all addresses of a /64."""


class FailureLimiter:
    """Limit on failed logins, by address; times are in seconds of any steady clock."""

    def __init__(self) -> None:
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """Tokens and their time, for addresses with recent failures."""

    def __len__(self) -> int:
        return len(self._buckets)

    def reserve(self, address: str, now: float) -> float:
        """Return the time after which an attempt may begin, 0 for at once, or infinity if it is refused.

        A positive time is a reservation: pass `has_waited` to `note_failure`, or call `note_success`."""
        if not self._buckets:
            return 0.0
        key = _find_network(address)
        tokens = self._tokens(key, now)
        if tokens >= 1:
            return 0.0
        if tokens - 1 < -WAITING_MAX:
            return math.inf
        self._put(key, tokens - 1, now)
        return (1 - tokens) / RATE_PER_S

    def is_exhausted(self, address: str, now: float) -> bool:
        """Return whether an attempt would have to wait."""
        return bool(self._buckets) and self._tokens(_find_network(address), now) < 1

    def note_failure(self, address: str, now: float, *, has_waited: bool) -> None:
        """Take a token for a failed attempt, unless the attempt has reserved one."""
        key = _find_network(address)
        self._put(key, self._tokens(key, now) - (not has_waited), now)

    def note_success(self, address: str, now: float) -> None:
        """Give back the token that a successful attempt had reserved."""
        key = _find_network(address)
        self._put(key, self._tokens(key, now) + 1, now)

    def _tokens(self, key: str, now: float) -> float:
        """Return the tokens of an address at `now`."""
        tokens, since = self._buckets.get(key, (BURST, now))
        return min(BURST, tokens + (now - since) * RATE_PER_S)

    def _put(self, key: str, tokens: float, now: float) -> None:
        """Store the tokens of an address; forget an address with all its tokens."""
        if tokens >= BURST:
            self._buckets.pop(key, None)
            return
        self._buckets[key] = max(tokens, -WAITING_MAX), now
        self._buckets.move_to_end(key)
        if len(self._buckets) > ADDRESSES_MAX:
            self._buckets.popitem(last=False)


def _find_network(address: str) -> str:
    """Return the part of an address that belongs to one client."""
    if ":" not in address:
        return address
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    mapped = getattr(found, "ipv4_mapped", None)
    if mapped is not None:
        return str(mapped)
    return str(ipaddress.ip_network((found, _IPV6_PREFIX), strict=False).network_address)
