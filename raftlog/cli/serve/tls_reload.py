"""Reload of certificate files while the broker runs.

    every second: files changed since the last check, and unchanged since the one before → read them
    SIGHUP: read all files now

So a certificate and its key that are replaced one after the other are read together. A file that cannot be used is
reported once, and the listener keeps the certificate in use."""

import asyncio
import logging
import os
import signal
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final, Protocol

from raftlog.errors import InvalidArgument
from raftlog.events import event
from raftlog.security.tls_files import CertificatePeriod

_logger = logging.getLogger(__name__)

CHECK_S: Final = 1.0
_Signature = tuple[object, ...]


class ReloadableTls(Protocol):
    """TLS of a listener that can read its files again."""

    @property
    def paths(self) -> tuple[str, ...]:
        """Files to watch; the first is the certificate."""

    @property
    def period(self) -> CertificatePeriod:
        """Period of the certificate in use."""

    def reload(self) -> None:
        """Use the present files for new connections. Raises `InvalidArgument`; then the old ones stay in use."""


class TlsReloader:
    """Watcher of the TLS files of all listeners, which reloads changed files."""

    def __init__(self, listeners: Mapping[str, ReloadableTls]) -> None:
        self._listeners = dict(listeners)
        self._loaded = {name: _signature(tls) for name, tls in listeners.items()}
        self._seen = dict(self._loaded)
        self._warned: dict[str, CertificatePeriod] = {}

    async def run(self) -> None:
        """Check the files each second, until it is cancelled."""
        while self._listeners:
            self.warn(datetime.now(UTC))
            await asyncio.sleep(CHECK_S)
            self.check()

    def warn(self, now: datetime) -> None:
        """Log one event for each certificate that expires soon, once per certificate."""
        for name, tls in self._listeners.items():
            period = tls.period
            if now >= period.warn_from and self._warned.get(name) != period:
                self._warned[name] = period
                event(_logger, "certificate_expires", listener=name, expires=_format_end(period))

    def check(self) -> None:
        """Reload the files that changed and are stable."""
        for name, tls in self._listeners.items():
            signature, before = _signature(tls), self._seen[name]
            self._seen[name] = signature
            if signature == before != self._loaded[name]:
                self._reload(name, tls, signature)

    def reload_all(self) -> None:
        """Reload all files now."""
        for name, tls in self._listeners.items():
            self._seen[name] = _signature(tls)
            self._reload(name, tls, self._seen[name])

    def _reload(self, name: str, tls: ReloadableTls, signature: _Signature) -> None:
        """Reload the files of a listener; if one is invalid, log the error, and keep the certificate in use."""
        self._loaded[name] = signature
        try:
            tls.reload()
        except (InvalidArgument, OSError) as error:
            event(_logger, "tls_reload_failed", listener=name, why=str(error))
        else:
            event(_logger, "tls_reloaded", listener=name, expires=_format_end(tls.period))


def watch_certificates(listeners: Mapping[str, ReloadableTls]) -> "asyncio.Task[None]":
    """Begin to watch the files of listeners; if there are any, SIGHUP reloads them instead of ending the process."""
    loop = asyncio.get_running_loop()
    reloader = TlsReloader(listeners)
    if listeners:
        loop.add_signal_handler(signal.SIGHUP, reloader.reload_all)
    return loop.create_task(reloader.run(), name="reload of certificates")


def _format_end(period: CertificatePeriod) -> str:
    """Return the end of a certificate's period."""
    return f"{period.ends:%Y-%m-%dT%H:%M:%SZ}"


def _signature(tls: ReloadableTls) -> _Signature:
    """Return a value that changes when one of the files changes."""
    return tuple(map(_signature_of_file, tls.paths))


def _signature_of_file(path: str) -> tuple[int, int, int] | None:
    """Return time, size and inode of a file; None if it is missing."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
