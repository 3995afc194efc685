"""Adapter for HTTP: `Access` for single requests, `raftlog.client` for producers and consumers."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Final

from jepsen.workloads.adapters.port import ProducerTimes
from jepsen.workloads.client.access import Access
from jepsen.workloads.roles.group_member import Member
from jepsen.workloads.roles.load_share import LoadShare
from jepsen.workloads.roles.plain_producer import Producer as PlainProducer
from raftlog.client import Consumer, Producer

BATCH_RECORDS: Final = 10_000
"""Limit that no batch reaches: `send` waits for a full batch, and its answers come in the order of the records."""


class HttpAdapter:
    """Factory of the roles of a client that uses HTTP, with the interface `Adapter`."""

    def __init__(self, addresses: Sequence[str], access: Access, share: LoadShare) -> None:
        self._addresses, self._share = list(addresses), share
        self.access = access

    def new_producer(self, random: Random, times: ProducerTimes) -> Producer:
        """Return an idempotent producer, which knows the brokers in random order."""
        return Producer(self._shuffle_addresses(random), batch_records=BATCH_RECORDS, **times._asdict())

    def new_consumer(
        self, random: Random, topics: Sequence[str], group: str, session_timeout_ms: int, wait_ms: int
    ) -> Consumer:
        """Return a group member with automatic commits, which knows the brokers in random order."""
        return Consumer(
            self._shuffle_addresses(random),
            *topics,
            group=group,
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=3 * session_timeout_ms,
            fetch_wait_ms=wait_ms,
        )

    def new_sender(self) -> PlainProducer:
        """Return the sender of plain requests, each sent once."""
        history, partitions, values, senders, random = self._share
        return PlainProducer(self.access, history, partitions, values, senders, random)

    def new_member(self, process: int, joins: int, topics: Mapping[str, int], random: Random) -> Member:
        """Return a group member of the HTTP group protocol; its joins need no process number of their own."""
        return Member(self._addresses, self.access, self._share.history, process, topics, random)

    async def close(self) -> None:
        """Do nothing: `Access` is closed by its owner."""

    def _shuffle_addresses(self, random: Random) -> list[str]:
        """Return the brokers' addresses in random order."""
        return random.sample(self._addresses, len(self._addresses))
