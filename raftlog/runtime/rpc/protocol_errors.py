"""Connections on the RPC port that break the protocol: counted, and logged at a bounded rate.

A source is an address. Each is logged once in an interval, with the number of its errors since then; the bytes that it
sent are never logged. At most `sources_max` sources are distinguished; the one without errors for the longest time is
removed first. Time is a parameter."""

import logging
from typing import NamedTuple

from raftlog.runtime.rpc.config import RpcConfig

_logger = logging.getLogger(__name__)


class _Source(NamedTuple):
    """Log times of one source."""

    logged_at: float
    unlogged: int
    """Errors since then that were not logged."""


class ProtocolErrors:
    """Counter and log of connections that violated the protocol or ended before the handshake was complete."""

    def __init__(self, config: RpcConfig) -> None:
        """Begin without errors."""
        self._interval_s = config.protocol_error_interval_ms / 1000
        self._sources_max = config.sources_max
        self._sources: dict[str, _Source] = {}
        self._logged_at = float("-inf")
        """Time of the latest log line."""
        self.count = 0

    def add(self, source: str, reason: str, now: float) -> bool:
        """Count an error of `source`; return whether it was logged as well."""
        self.count += 1
        known = self._sources.pop(source, None)
        if known is not None and now - known.logged_at < self._interval_s:
            self._sources[source] = _Source(known.logged_at, known.unlogged + 1)
            return False
        if known is None and len(self._sources) >= self._sources_max:
            if now - self._logged_at < self._interval_s / self._sources_max:
                return False
            del self._sources[next(iter(self._sources))]
        self._logged_at = now
        self._sources[source] = _Source(now, 0)
        unlogged = f" ({known.unlogged} more since the last line)" if known is not None and known.unlogged else ""
        _logger.warning("connection from %s closed: %s%s", source, reason, unlogged)
        return True
