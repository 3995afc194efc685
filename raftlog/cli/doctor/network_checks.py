"""Checks of the listeners' addresses and certificates."""

import errno
import socket
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from raftlog.cli.doctor.findings import OK, PROBLEM, WARNING, Finding, Level

_SOON: Final = timedelta(days=30)
_ANY: Final = ("0.0.0.0", "::", "*")  # noqa: S104 - compared with addresses of the configuration


class WantedAddress(NamedTuple):
    """Address to listen on; a broker starts without an optional one. `kinds`: types of its sockets."""

    name: str
    host: str
    port: int
    is_optional: bool = False
    kinds: tuple[socket.SocketKind, ...] = (socket.SOCK_STREAM,)

    def overlaps(self, other: "WantedAddress") -> bool:
        """Return whether only one of the two can be listened on."""
        hosts = {self.host, other.host}
        return self.port == other.port != 0 and (len(hosts) == 1 or not hosts.isdisjoint(_ANY))


def check_addresses(addresses: Iterable[WantedAddress], *, is_running: bool) -> Iterator[Finding]:
    """Check that the broker could listen on each address.

    `is_running`: a broker with this data directory runs, so its addresses are expected to be in use."""
    earlier: list[WantedAddress] = []
    for each in addresses:
        name, host, port, is_optional, kinds = each
        check = f"{name} address"
        where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        taken = next((other.name for other in earlier if other.overlaps(each)), None)
        earlier.append(each)
        if taken is not None:
            text, advice = f"{where} is also the {taken} address", f"give another port with {_flag_of(name)}"
            yield Finding(check, WARNING if is_optional else PROBLEM, text, advice)
            continue
        error = next((found for kind in kinds if (found := find_listen_error(host, port, kind))), None)
        if error is None:
            yield Finding(check, OK, f"{where} is free")
        elif is_running and error.errno == errno.EADDRINUSE:
            yield Finding(check, OK, f"{where} is in use, and a broker with this data directory runs")
        else:
            level: Level = WARNING if is_optional else PROBLEM
            yield Finding(check, level, f"{where}: {error.strerror or error}", _advice(name, error))


def _advice(name: str, error: OSError) -> str:
    """Return the next step after an address could not be bound."""
    flag = _flag_of(name)
    if error.errno == errno.EADDRINUSE:
        return f"stop the other program (`ss -ltnp` shows it), or give another port with {flag}"
    if error.errno == errno.EACCES:
        return f"ports below 1024 need privileges: give another port with {flag}"
    return f"give an address of this machine with {flag}"


def _flag_of(name: str) -> str:
    """Return the flag that gives an address."""
    return f"--{name}" if name in ("http", "rpc", "gossip") else "--kafka"


def find_listen_error(host: str, port: int, kind: socket.SocketKind = socket.SOCK_STREAM) -> OSError | None:
    """Return the error of an attempt to listen on an address; None if it succeeds."""
    try:
        infos = socket.getaddrinfo(host, port, type=kind, flags=socket.AI_PASSIVE)
    except socket.gaierror as error:
        return OSError(errno.EADDRNOTAVAIL, f"the name cannot be resolved ({error.strerror})")
    for family, _, protocol, _, address in infos:
        try:
            with socket.socket(family, kind, protocol) as listener:
                if kind is socket.SOCK_STREAM:
                    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.bind(address)
                if kind is socket.SOCK_STREAM:
                    listener.listen()
        except OSError as error:
            return error
    return None


def check_certificates(ends: Mapping[str, datetime]) -> Iterator[Finding]:
    """Check the expiry times of certificates; `ends` has the time for each listener."""
    now = datetime.now(UTC)
    for name, end in ends.items():
        text = f"valid until {end:%Y-%m-%d %H:%M} UTC"
        if end <= now:
            yield Finding(f"{name} certificate", WARNING, f"expired at {end:%Y-%m-%d %H:%M} UTC", "replace its file")
        elif end - now < _SOON:
            yield Finding(f"{name} certificate", WARNING, text, "replace its file soon; no restart is needed")
        else:
            yield Finding(f"{name} certificate", OK, text)
