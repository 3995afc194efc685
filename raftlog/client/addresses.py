"""Broker addresses as users give them."""

from collections.abc import Sequence

from raftlog.errors import InvalidArgument

PORT_DEFAULT = 8082


def parse_bootstrap(bootstrap: str | Sequence[str]) -> list[str]:
    """Return the addresses of a sequence, or of one string with commas, as HOST:PORT. Raises `InvalidArgument`."""
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
    """Return an address as HOST:PORT, with the default port if it has none. Raises `InvalidArgument`."""
    if not isinstance(text, str):
        raise InvalidArgument(f"{text!r} is not a broker address; an address is a str, such as '127.0.0.1:8082'")
    host, colon, port = text.strip().rpartition(":")
    if not colon:
        host, port = text.strip(), str(PORT_DEFAULT)
    if not host or not port.isdecimal() or not 0 < int(port) < 65536 or set(host) & set("/?#@ "):
        raise InvalidArgument(f"{text!r} is not a broker address; an address is HOST:PORT, such as 127.0.0.1:8082")
    return f"{host}:{int(port)}"
