"""Protection of a broker's listeners, for health, metrics and the log.

    other machines can reach a listener without TLS or logins    a note of health, as long as the broker runs
    a certificate expires soon (`CertificatePeriod.warn_from`)   a note of health
    a certificate has expired                                    a problem: clients refuse new connections

The process that makes the listeners sets them; the certificates may be renewed meanwhile."""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple, Protocol

from raftlog.security.tls_files import CertificatePeriod

_MS = 1000


class Certified(Protocol):
    """TLS of a listener, whose certificate can be renewed."""

    @property
    def period(self) -> CertificatePeriod:
        """Period of the certificate that new connections get."""


class ListenerSecurity(NamedTuple):
    """Protection of one listener at an address HOST:PORT. `tls` is None without TLS.

    `lacks`: protection that is missing though other machines can reach the listener, such as `TLS` and `logins`."""

    name: str
    address: str
    lacks: Sequence[str]
    tls: Certified | None

    @property
    def missing(self) -> str:
        """Missing protection as text."""
        return " and ".join(self.lacks)


class ListenerSecurities:
    """Protection of all listeners; `wall_ms` is the Unix time."""

    def __init__(self, wall_ms: Callable[[], int]) -> None:
        self._wall_ms = wall_ms
        self.all: Sequence[ListenerSecurity] = ()
        """Listeners of the process, with the one for other brokers."""

    def expiry_times_s(self) -> list[tuple[str, float]]:
        """Return the time (Unix) at which the certificate of each listener with TLS expires."""
        return [(name, period.ends.timestamp()) for name, period in self._periods()]

    def notes(self) -> list[str]:
        """Return notes for operators: insecure listeners, and certificates that expire soon."""
        notes = [
            f"other machines can reach the listener {each.name} at {each.address} without {each.missing} (--insecure)"
            for each in self.all
            if each.lacks
        ]
        for name, period in self._periods():
            if period.warn_from <= self._now() < period.ends:
                notes.append(f"the certificate of the listener {name} expires on {period.end_text}; renew it")
        return notes

    def problems(self) -> list[str]:
        """Return problems: certificates that have expired."""
        return [
            f"the certificate of the listener {name} expired on {period.end_text}, and clients refuse it; renew it"
            for name, period in self._periods()
            if self._now() >= period.ends
        ]

    def _periods(self) -> Iterable[tuple[str, CertificatePeriod]]:
        """Return the names of listeners with TLS, and the periods of their certificates."""
        return [(each.name, each.tls.period) for each in self.all if each.tls is not None]

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._wall_ms() / _MS, UTC)
