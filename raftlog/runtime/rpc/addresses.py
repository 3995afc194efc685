"""Addresses that the transport listens on, and whether other machines can reach them."""

import asyncio
import ipaddress
import socket
from collections.abc import Iterable

from raftlog.errors import InvalidArgument


def is_loopback(address: str) -> bool:
    """Return whether an IP address is a loopback address: IPv4, IPv6, or IPv4 mapped into IPv6."""
    ip = ipaddress.ip_address(address)
    mapped = ip.ipv4_mapped if isinstance(ip, ipaddress.IPv6Address) else None
    return (mapped or ip).is_loopback


async def resolve(loop: asyncio.AbstractEventLoop, host: str) -> list[str]:
    """Return all IP addresses of a host name or address, in the resolver's order.

    The transport binds these and not the name, so that the addresses that were checked are those that are bound. Raises
    `InvalidArgument` for an empty name, which would mean every address, and for one that has no address."""
    if not host:
        raise InvalidArgument("an address to listen on needs a host; 127.0.0.1 for this machine alone")
    try:
        result = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    except (OSError, UnicodeError) as error:
        raise InvalidArgument(f"the host {host!r} has no address: {error}") from None
    return list(dict.fromkeys(str(info[4][0]) for info in result))


def check_reachable(host: str, addresses: Iterable[str], is_secured: bool, is_insecure_allowed: bool) -> None:
    """Raise `InvalidArgument` if other machines could connect without TLS, unless that is allowed."""
    exposed = [address for address in addresses if not is_loopback(address)]
    if exposed and not is_secured and not is_insecure_allowed:
        named = "" if exposed == [host] else f" ({', '.join(exposed)})"
        raise InvalidArgument(
            f"{host}{named} can be reached by other machines, and any client of the RPC port can read and write "
            "everything: configure TLS with client certificates, listen on 127.0.0.1, or allow it with --insecure"
        )
