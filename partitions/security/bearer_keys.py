"""Public keys of bearer tokens in a broker: read at the start, again at intervals, and for tokens with unknown keys.

Keys are read in a thread. A failure keeps the keys that are known, and is logged. Used by `authenticator`."""

import asyncio
import logging
import math
from typing import Final

from raftlog.errors import Unavailable
from raftlog.security.bearer import BearerVerifier, TokenIdentity, UnknownKey

_logger = logging.getLogger(__name__)
KEYS_REFRESH_S: Final = 300.0
"""Age of keys after which a verification begins to read them again, so that withdrawn keys become invalid."""
KEYS_RETRY_S: Final = 5.0
"""Minimum time between two readings for tokens with unknown keys, and after a failure."""


class BearerKeys:
    """Verification of bearer tokens with a key set that is read again when it is old or lacks a key."""

    def __init__(self, verifier: BearerVerifier) -> None:
        self._verifier = verifier
        self._read_at = -math.inf
        self._tried_at = -math.inf
        self._reading: asyncio.Task[None] | None = None

    async def verify(self, token: str, now_s: float) -> TokenIdentity:
        """Verify a token and return its identity.

        Raises `AuthenticationFailed`, and `Unavailable` if no keys have been read yet."""
        now = asyncio.get_running_loop().time()
        if now - self._read_at > KEYS_REFRESH_S:
            reading = self._read_again(now)
            if self._read_at == -math.inf:
                await self._wait(reading)
        try:
            return self._verifier.verify(token, now_s)
        except UnknownKey:
            reading = self._read_again(now)
            if reading is None:
                raise
        await self._wait(reading)
        return self._verifier.verify(token, now_s)

    def start(self) -> None:
        """Begin to read the keys for the first time."""
        self._read_again(asyncio.get_running_loop().time())

    def close(self) -> None:
        """Cancel a running reading of the keys."""
        if self._reading is not None:
            self._reading.cancel()

    def _read_again(self, now: float) -> "asyncio.Task[None] | None":
        """Begin to read the keys, or return the running task.

        Return None if the last attempt was less than `KEYS_RETRY_S` ago."""
        if self._reading is None:
            if now - self._tried_at < KEYS_RETRY_S:
                return None
            self._tried_at = now
            self._reading = asyncio.create_task(self._read(now), name="keys of bearer tokens")
        return self._reading

    async def _read(self, now: float) -> None:
        """Read the keys in a thread; log a failure."""
        try:
            await asyncio.to_thread(self._verifier.load)
            self._read_at = now
        except Unavailable as error:
            _logger.warning("%s", error)
        finally:
            self._reading = None

    async def _wait(self, reading: "asyncio.Task[None] | None") -> None:
        """Wait for the reading, if any. Raises `Unavailable` while no keys were ever read."""
        if reading is not None:
            await asyncio.shield(reading)
        if self._read_at == -math.inf:
            raise Unavailable("the keys of bearer tokens could not be read yet; see the broker's log")
