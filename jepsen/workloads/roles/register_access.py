"""A partition as a register: its newest record is its value.

A write is a stored batch of one record, a read lists the end (linearizable) and fetches the record below it. Both are
recorded twice, as operations on a register (`write`, `read`) and as their parts (`send`, `list`), so that the checkers
of records check them as well. There is no compare-and-set: the service has no conditional appends, except by
a producer's sequence numbers.
"""

import asyncio
from collections.abc import Iterator, Sequence
from random import Random
from typing import Final

from jepsen.checkers.history import FAIL, OK, READ, WRITE, Register, Send, Value
from jepsen.workloads.client.access import Access
from jepsen.workloads.client.numbering import ProcessNumberPool
from jepsen.workloads.client.recording import HistoryWriter
from jepsen.workloads.client.values import make_payload
from jepsen.workloads.roles.offset_queries import list_offsets, listed_end
from jepsen.workloads.roles.plain_producer import send_batch
from raftlog.errors import RaftlogError, Unavailable
from raftlog.records import build_batch
from raftlog.types import TopicPartition

TIMEOUT_MS: Final = 3000
SIZES: Final = (1, 100, 1000)
_ATTEMPTS: Final = 3
"""Number of requests for a record that is known to exist."""
_WAIT_MS: Final = 1000
_AGAIN_S: Final = 0.02


class Writer:
    """Writer of registers; one for each client. Calls of `send` may overlap."""

    def __init__(
        self,
        access: Access,
        history: HistoryWriter,
        partitions: Sequence[TopicPartition],
        values: Iterator[int],
        senders: ProcessNumberPool,
        random: Random,
    ) -> None:
        """Create the role. Each write is an operation of a free process of `senders`."""
        self._access, self._history, self._random = access, history, random
        self._partitions, self._values, self._senders = partitions, values, senders
        self.not_offered = 0

    async def send(self) -> None:
        """Write a value to a random register, with one process for the register and one for the send."""
        with self._senders.take(2) as processes:
            if processes:
                await self._write(*processes)
            else:
                self.not_offered += 1

    async def _write(self, process: int, sender: int) -> None:
        """Write a new value to the register of a random partition, by a send of process `sender`.

        Record both operations."""
        place, value = self._random.choice(self._partitions), next(self._values)
        node = self._access.draw_node(self._random)
        body = build_batch([make_payload(value, self._random.choice(SIZES))])
        invocation = self._history.invoke(process, WRITE, Register(str(place), value), node=node)
        send = Send(place, (value,))
        done = await send_batch(self._access, self._history, sender, node, send, body, "all", TIMEOUT_MS)
        if done.type == OK:
            self._history.ok(invocation)
        else:
            complete = self._history.fail if done.type == FAIL else self._history.info
            complete(invocation, done.error)


class RegisterReader:
    """Reader of registers; one for each client. Calls of `send` may overlap."""

    def __init__(
        self,
        access: Access,
        history: HistoryWriter,
        partitions: Sequence[TopicPartition],
        senders: ProcessNumberPool,
        random: Random,
    ) -> None:
        """Create the role. Each read is an operation of a free process of `senders`."""
        self._access, self._history, self._random = access, history, random
        self._partitions, self._senders = partitions, senders
        self.not_offered = 0

    async def send(self) -> None:
        """Read a random register, with one process for the register and one for the list."""
        with self._senders.take(2) as processes:
            if processes:
                await self._read(*processes)
            else:
                self.not_offered += 1

    async def _read(self, process: int, lister: int) -> None:
        """Read the register of a random partition: its newest record below a linearizable end.

        The process `lister` lists the end."""
        place, node = self._random.choice(self._partitions), self._access.draw_node(self._random)
        invocation = self._history.invoke(process, READ, Register(str(place)), node=node)
        listed = await list_offsets(
            self._access, self._history, lister, node, place, linearizable=True, timeout_ms=TIMEOUT_MS
        )
        end = listed_end(listed)
        if end is None:
            self._history.fail(invocation, listed.error)
            return
        try:
            value = await self._read_newest(node, place, end) if end else None
        except RaftlogError as error:
            self._history.record_refusal(invocation, error)
        else:
            self._history.ok(invocation, Register(str(place), value))

    async def _read_newest(self, node: int, place: TopicPartition, end: int) -> Value:
        """Return the value below the end. Raises `Unavailable` when the node does not return it in time."""
        for _ in range(_ATTEMPTS):
            found = await self._access.fetch(node, place, end - 1, _WAIT_MS)
            if found.offsets and found.offsets[0] == end - 1:
                return found.values[0]
            await asyncio.sleep(_AGAIN_S)
        raise Unavailable(f"node {node} does not show offset {end - 1} of {place}")
