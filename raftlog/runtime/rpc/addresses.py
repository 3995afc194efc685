"""Where the transport listens, and whether anybody but this machine can reach it there."""

import asyncio
import ipaddress
import socket
from collections.abc import Iterable

from raftlog.errors import InvalidArgument


def is_loopback(address: str) -> bool:
    """Whether an IP address, of either family and also an IPv4 one in IPv6 clothes, belongs to this machine alone."""
    ip = ipaddress.ip_address(address)
    mapped = ip.ipv4_mapped if isinstance(ip, ipaddress.IPv6Address) else None
    return (mapped or ip).is_loopback


async def resolve(loop: asyncio.AbstractEventLoop, host: str) -> list[str]:
    """All IP addresses of a host name or address, in the resolver's order.

    Whoever listens does so on these and not on the name, so that what was judged is what is bound. Raises
    `InvalidArgument` for an empty name, which would stand for every address, and for one that has no address.
    """
    if not host:
        raise InvalidArgument("an address to listen on needs a host; 127.0.0.1 for this machine alone")
    try:
        found = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    except (OSError, UnicodeError) as error:
        raise InvalidArgument(f"the host {host!r} has no address: {error}") from None
    return list(dict.fromkeys(str(info[4][0]) for info in found))


def check_reachable(host: str, addresses: Iterable[str], is_secured: bool, is_insecure_allowed: bool) -> None:
    """Raises `InvalidArgument` where other machines could connect without TLS, unless that is wanted."""
    exposed = [address for address in addresses if not is_loopback(address)]
    if exposed and not is_secured and not is_insecure_allowed:
        named = "" if exposed == [host] else f" ({', '.join(exposed)})"
        raise InvalidArgument(
            f"{host}{named} can be reached by other machines, and whoever reaches the RPC port can read and write "
            "everything: configure TLS with client certificates, listen on 127.0.0.1, or allow it with --insecure"
        )
