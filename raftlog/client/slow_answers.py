"""Warnings about requests without an answer for a second, so that the log has the reason of every long wait.

An address is named once, until it answers. Owned by a transport."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager

from raftlog.client.outage import WARN_AFTER_S

_log = logging.getLogger("raftlog.client")
_FAILED = 500
"""Lowest status of an answer that does not prove that the broker works."""


class SlowAnswers:
    """Warnings about the slow requests of one transport."""

    def __init__(self) -> None:
        self._reported: set[str] = set()
        """Addresses with a warning, at most those of the transport."""

    @contextmanager
    def watch(self, address: str, request: str, timeout_s: float, wait_s: float) -> Iterator[None]:
        """Warn when the block takes longer than `wait_s`, the broker's requested wait, plus a second."""
        timer = asyncio.get_running_loop().call_later(
            wait_s + WARN_AFTER_S, self._warn, address, request, timeout_s, wait_s + WARN_AFTER_S
        )
        try:
            yield
        finally:
            timer.cancel()

    def record_status(self, address: str, status: int) -> None:
        """Record an answer; after a success, later warnings about the address are logged again."""
        if status < _FAILED:
            self._reported.discard(address)

    def _warn(self, address: str, request: str, timeout_s: float, after_s: float) -> None:
        """Log a warning, unless one about this address was logged since its last success."""
        if address not in self._reported:
            self._reported.add(address)
            _log.warning("%s: no answer to %s after %g s, waiting for up to %g s", address, request, after_s, timeout_s)
