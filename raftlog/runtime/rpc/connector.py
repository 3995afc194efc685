"""Establishment of a connection to an address, up to the end of the handshake: for links to peers and for probes."""

import asyncio

from raftlog.runtime.rpc.connection import Connection
from raftlog.runtime.rpc.endpoint import Endpoint, bounds_of_strangers
from raftlog.runtime.rpc.handshake import Channel
from raftlog.runtime.rpc.outgoing import Outgoing
from raftlog.runtime.rpc.tls import TlsContexts
from raftlog.types import NodeId

Address = tuple[str, int]


def new_outgoing(endpoint: Endpoint, node: NodeId | None, channel: Channel) -> Outgoing:
    """Return a connection that is not open yet: to a node, or to any process at an address if `node` is None."""
    config = endpoint.config
    connection = Connection(endpoint.loop, config, bounds_of_strangers(config), endpoint.receive_budget)
    outgoing = connection.handler = Outgoing(endpoint, node, channel, connection)
    return outgoing


async def connect(
    endpoint: Endpoint, outgoing: Outgoing, address: Address, tls: TlsContexts | None, timeout_ms: int
) -> None:
    """Connect to an address, up to the end of the handshake.

    Raises `OSError`, `TimeoutError`, `HandshakeRefused`; the connection is then closed."""
    timeout_ms = min(timeout_ms, endpoint.config.handshake_timeout_ms)
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            await _open(endpoint, outgoing.connection, address, tls)
            await outgoing.established
    except BaseException as error:
        outgoing.established.cancel()
        outgoing.connection.abort()
        if isinstance(error, TimeoutError) and not str(error):
            raise TimeoutError(f"{address[0]}:{address[1]} gave no answer in {timeout_ms} ms") from None
        raise


async def _open(endpoint: Endpoint, connection: Connection, address: Address, tls: TlsContexts | None) -> None:
    """Open the TCP connection, with TLS if there is a context."""
    host, port = address
    if tls is None:
        await endpoint.loop.create_connection(lambda: connection, host, port)
    else:
        await endpoint.loop.create_connection(lambda: connection, host, port, ssl=tls.client, server_hostname=host)
