"""Target of the load: the brokers of a cluster, a topic, its leaders and its end offsets."""

import asyncio
import logging
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple
from uuid import uuid4

from raftlog.client import BrokerAddresses, BrokerClient
from raftlog.errors import RaftlogError, Unavailable

_logger = logging.getLogger(__name__)


class LoadTarget(NamedTuple):
    """Brokers and topic of a run; addresses are `HOST:PORT` or `https://HOST:PORT`."""

    addresses: Sequence[str]
    topic: str
    leaders: Mapping[int, str]
    """Leader addresses by partition; partitions without a known leader are missing."""
    ends: Mapping[int, int]
    """Next offset of each partition, at which polls begin."""
    tls: ssl.SSLContext | None = None
    headers: str = ""
    """Further header lines of each request."""


@contextmanager
def prepare(
    bootstrap: Sequence[str], topic: str | None, partitions: int, replication_factor: int | None
) -> Iterator[LoadTarget]:
    """Yield an existing topic as target, or a new one that is deleted at the end of the block. Blocking.

    Raises the errors of `BrokerClient`, and `Unavailable` for a cluster whose brokers have no address. No event loop
    runs inside the block: the load has the thread for itself, and Ctrl-C ends it at once."""
    if topic is not None:
        yield asyncio.run(_find_target(bootstrap, topic))
        return
    name = f"bench-{uuid4().hex[:12]}"
    asyncio.run(_create(bootstrap, name, partitions, replication_factor))
    try:
        yield asyncio.run(_find_target(bootstrap, name))
    finally:
        try:
            asyncio.run(_delete(bootstrap, name))
        except RaftlogError as error:  # a failed clean-up must not hide the result of the run
            _logger.warning("the topic %s was not deleted, delete it later: %s", name, error)


async def _create(bootstrap: Sequence[str], topic: str, partitions: int, replication_factor: int | None) -> None:
    """Create the topic of the load."""
    async with BrokerClient(bootstrap) as client:
        await client.create_topic(topic, partitions, replication_factor)


async def _delete(bootstrap: Sequence[str], topic: str) -> None:
    """Delete the topic of the load."""
    async with BrokerClient(bootstrap) as client:
        await client.delete_topic(topic)


async def _find_target(bootstrap: Sequence[str], topic: str) -> LoadTarget:
    """Return the target: addresses of the live brokers, leaders and end offsets of the topic.

    Raises `Unavailable` without brokers."""
    async with BrokerClient(bootstrap) as client:
        by_node = {broker.node_id: broker.http for broker in await client.brokers() if broker.is_alive and broker.http}
        if not by_node:
            raise Unavailable("no broker of the cluster advertises an HTTP address")
        described = await client.describe_topic(topic)
        leaders = {each.partition: by_node[each.leader] for each in described.replicas if each.leader in by_node}
        ends = {each.partition: int((await client.offsets(topic, each.partition)).end) for each in described.replicas}
    given = BrokerAddresses.of(bootstrap)
    headers = "".join(f"{name}: {value}\r\n" for name, value in given.headers().items())
    return LoadTarget(list(by_node.values()), topic, leaders, ends, given.ssl_context(), headers)
