"""RPC addresses as text, HOST:PORT, in one normal form, so that lists of them can be compared. Pure."""

from collections.abc import Iterable

from raftlog.errors import InvalidArgument

Address = tuple[str, int]
"""Host and port."""
_PORT_MAX = 65_535


def address_text(address: Address) -> str:
    """Return HOST:PORT with a lower-case host, an IPv6 address in brackets. Raises `InvalidArgument`."""
    host, port = address
    host = host.strip().strip("[]").rstrip(".").lower()
    if not host or any(character.isspace() for character in host) or not 0 < port <= _PORT_MAX:
        raise InvalidArgument(f"{address[0]}:{port} is not an address; use HOST:PORT with a port of 1 to {_PORT_MAX}")
    return join_host_port(host, port)


def join_host_port(host: str, port: int) -> str:
    """Return HOST:PORT as given, with an IPv6 address in brackets; checks nothing."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_address(text: str) -> Address:
    """Return host and port of a text HOST:PORT. Raises `InvalidArgument` for any other text."""
    host, colon, port = text.strip().rpartition(":")
    if not colon or not port.isdecimal() or not port.isascii():
        raise InvalidArgument(f"{text!r} is not an address; use HOST:PORT")
    address = host.strip("[]"), int(port)
    address_text(address)
    return address


def parse_address_or_none(text: str) -> Address | None:
    """Return host and port of a text; None if the text is empty or not an address."""
    try:
        return parse_address(text) if text else None
    except InvalidArgument:
        return None


def normalize_addresses(addresses: Iterable[Address]) -> tuple[str, ...]:
    """Return the addresses as texts in normal form, sorted, without duplicates. Raises `InvalidArgument`."""
    return tuple(sorted({address_text(address) for address in addresses}))
