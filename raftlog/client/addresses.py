"""Broker addresses as users give them, and the files for TLS connections to them.

HOST:PORT, http://HOST:PORT   plain text; written as HOST:PORT
https://HOST:PORT             TLS"""

import base64
import ssl
from collections.abc import Iterable, Sequence
from typing import Final, Self, overload

from raftlog.errors import InvalidArgument
from raftlog.security.client_tls import ClientTlsFiles, client_context

PORT_DEFAULT = 8082
HTTPS: Final = "https://"
_HTTP: Final = "http://"
_PASSWORD_LINE_MAX: Final = 4096


class BrokerAddresses(Sequence[str]):
    """Addresses of brokers, and the files for connections to them; clients take it as `bootstrap`.

    Paths of PEM files: `ca` of the authorities to trust, without it those of the system; `certificate` and `key` of the
    client. `user` logs in with the first line of `password_file`."""

    def __init__(
        self,
        addresses: str | Sequence[str],
        *,
        ca: str | None = None,
        certificate: str | None = None,
        key: str | None = None,
        user: str | None = None,
        password_file: str | None = None,
    ) -> None:
        """Check the addresses. Raises `InvalidArgument`; the files are read when a client connects."""
        self._addresses = tuple(parse_bootstrap(addresses))
        self.tls = ClientTlsFiles(ca, certificate, key)
        if (user is None) != (password_file is None):
            raise InvalidArgument("a login needs both a user and a file with the password (--user, --password-file)")
        self.user, self.password_file = user, password_file

    @classmethod
    def of(cls, bootstrap: str | Sequence[str]) -> "BrokerAddresses":
        """Convert the `bootstrap` argument of a client into `BrokerAddresses`. Raises `InvalidArgument`."""
        return bootstrap if isinstance(bootstrap, BrokerAddresses) else cls(bootstrap)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...
    def __getitem__(self, index: int | slice) -> str | tuple[str, ...]:
        return self._addresses[index]

    def __len__(self) -> int:
        return len(self._addresses)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BrokerAddresses) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[object, ...]:
        """Return the values that equal objects share."""
        return self._addresses, self.tls, self.user, self.password_file

    def __repr__(self) -> str:
        return f"BrokerAddresses({','.join(self._addresses)!r})"

    @property
    def is_secure(self) -> bool:
        """Whether all addresses use TLS; the client then ignores addresses without TLS that brokers report."""
        return all(address.startswith(HTTPS) for address in self._addresses)

    def with_addresses(self, addresses: Iterable[str]) -> Self:
        """Return a copy with these addresses, and the same TLS files and login. Raises `InvalidArgument`."""
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        copy._addresses = tuple(parse_bootstrap(list(addresses)))
        return copy

    def ssl_context(self) -> ssl.SSLContext | None:
        """Return the context of connections; None if no address has TLS. Raises `InvalidArgument`."""
        if not any(address.startswith(HTTPS) for address in self._addresses):
            return None
        return client_context(self.tls)

    def headers(self) -> dict[str, str]:
        """Return the HTTP headers of each request, which authenticate the user. Raises `InvalidArgument`."""
        if self.user is None or self.password_file is None:
            return {}
        login = f"{self.user}:{_read_password(self.password_file)}".encode()
        return {"Authorization": f"Basic {base64.b64encode(login).decode()}"}


def _read_password(path: str) -> str:
    """Return the first line of a file; raises `InvalidArgument`, which does not show it."""
    try:
        with open(path, encoding="utf-8") as file:
            line = file.readline(_PASSWORD_LINE_MAX).rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise InvalidArgument(f"the password file {path} cannot be read: {why}") from None
    if not line:
        raise InvalidArgument(f"the password file {path} is empty; the password is its first line")
    return line


def parse_bootstrap(bootstrap: str | Sequence[str]) -> list[str]:
    """Return the addresses of a sequence, or of one string with commas. Raises `InvalidArgument`."""
    if isinstance(bootstrap, str):
        given: Sequence[object] = [part for part in bootstrap.split(",") if part.strip()]
    elif isinstance(bootstrap, Sequence) and not isinstance(bootstrap, bytes | bytearray | memoryview):
        given = bootstrap
    else:
        raise InvalidArgument(
            f"bootstrap is {type(bootstrap).__name__}; give addresses of brokers, such as '127.0.0.1:8082', or a list"
        )
    if not given:
        raise InvalidArgument("no broker address was given; an address is HOST:PORT, such as 127.0.0.1:8082")
    return [parse_address(address) for address in given]


def parse_address(text: object) -> str:
    """Return an address in its normal form, with the default port if it has none. Raises `InvalidArgument`."""
    if not isinstance(text, str):
        raise InvalidArgument(f"{text!r} is not a broker address; an address is a str, such as '127.0.0.1:8082'")
    stripped = text.strip()
    scheme = HTTPS if stripped.lower().startswith(HTTPS) else ""
    if scheme or stripped.lower().startswith(_HTTP):
        stripped = stripped.partition("://")[2].removesuffix("/")
    host, colon, port = stripped.rpartition(":")
    if not colon:
        host, port = stripped, str(PORT_DEFAULT)
    if not host or not port.isdecimal() or not 0 < int(port) < 65536 or set(host) & set("/?#@ "):
        raise InvalidArgument(
            f"{text!r} is not a broker address; an address is HOST:PORT or https://HOST:PORT, such as 127.0.0.1:8082"
        )
    return f"{scheme}{host}:{int(port)}"


def base_url(address: str) -> str:
    """Return the URL of an address in normal form."""
    return address if address.startswith(HTTPS) else f"{_HTTP}{address}"


def host_of(address: str) -> str:
    """Return HOST:PORT of an address in normal form."""
    return address.removeprefix(HTTPS)
