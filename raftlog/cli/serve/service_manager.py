"""Notifications to the service manager, by systemd's protocol of `sd_notify` over the socket in `NOTIFY_SOCKET`.

    READY=1 when the broker serves   WATCHDOG=1 twice per `WatchdogSec=`, from the event loop   STOPPING=1 at a stop

A blocked event loop sends nothing, so systemd restarts the process. Without the variable nothing is sent."""

import asyncio
import contextlib
import logging
import os
import socket
from typing import Final

_logger = logging.getLogger(__name__)
_VARIABLES: Final = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")


class ServiceManager:
    """Service manager that started this process, if any."""

    def __init__(self, address: str | None, watchdog_s: float | None) -> None:
        """Make one for the socket at `address`; None: no service manager.

        `watchdog_s`: time without a sign of life after which it restarts the process."""
        self._address = address
        self._watchdog_s = watchdog_s
        self._beating: asyncio.Task[None] | None = None

    @classmethod
    def take(cls) -> "ServiceManager":
        """Read the service manager from the environment, and remove its variables there.

        Child processes would inherit them."""
        address, microseconds, pid = (os.environ.pop(name, None) for name in _VARIABLES)
        is_watched = microseconds is not None and microseconds.isdecimal() and pid in (None, str(os.getpid()))
        return cls(address or None, int(microseconds or 0) / 1e6 if is_watched else None)

    def notify_ready(self, status: str) -> None:
        """Send that the broker is ready, and begin to send signs of life to the watchdog."""
        self._send(f"READY=1\nSTATUS={status}")
        if self._watchdog_s and self._address is not None and self._beating is None:
            self._beating = asyncio.get_running_loop().create_task(self._beat(self._watchdog_s / 2))

    def notify_stopping(self) -> None:
        """Send that the broker stops; signs of life continue until the process ends."""
        self._send("STOPPING=1")

    async def _beat(self, interval_s: float) -> None:
        """Notify systemd's watchdog every `interval_s` seconds."""
        while True:
            self._send("WATCHDOG=1")
            await asyncio.sleep(interval_s)

    def _send(self, text: str) -> None:
        """Send a notification; an error is only logged, since it does not affect the broker."""
        if self._address is None:
            return
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        try:
            with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)) as sender:
                sender.sendto(text.encode(), address)
        except OSError as error:
            _logger.warning("the service manager at %s was not notified: %s", self._address, error)
