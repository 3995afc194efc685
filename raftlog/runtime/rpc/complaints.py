"""Strangers on the port: counted, and named in the log without letting them fill it.

A source is an address. Each is written about once in an interval, with how often it came since; what it sent is never
written. At most `sources_max` sources are told apart, the longest silent is forgotten first. Time is a parameter.
"""

import logging
from typing import NamedTuple

from raftlog.runtime.rpc.config import RpcConfig

_logger = logging.getLogger(__name__)


class _Source(NamedTuple):
    told_at: float
    silent: int
    """Complaints since then that were not written."""


class Complaints:
    """Called for every connection that ends before or because it did not follow the protocol."""

    def __init__(self, config: RpcConfig) -> None:
        self._interval_s = config.complaint_interval_ms / 1000
        self._sources_max = config.sources_max
        self._sources: dict[str, _Source] = {}
        self._told_at = float("-inf")
        """When a source was last written about that had been forgotten or never met."""
        self.count = 0

    def note(self, source: str, why: str, now: float) -> bool:
        """Count; true when it was written to the log as well."""
        self.count += 1
        known = self._sources.pop(source, None)
        if known is not None and now - known.told_at < self._interval_s:
            self._sources[source] = _Source(known.told_at, known.silent + 1)
            return False
        if known is None and len(self._sources) >= self._sources_max:
            if now - self._told_at < self._interval_s / self._sources_max:
                return False
            del self._sources[next(iter(self._sources))]
        self._told_at = now
        self._sources[source] = _Source(now, 0)
        silent = f" ({known.silent} more since the last line)" if known is not None and known.silent else ""
        _logger.warning("connection from %s closed: %s%s", source, why, silent)
        return True
