"""Sender of a transaction's markers: to the leaders of its partitions and the coordinators of its groups.

Each marker is sent again until it is written or the coordinator has ended; the next coordinator starts again from the
stored decision. Repeated markers, even those that arrive during a later transaction, are recognized by the number of
their transaction and change nothing. A deleted topic, and a partition that has a newer epoch of the producer, count as
done.

Markers for unreachable leaders hardly delay other transactions: few markers of one transaction are sent at once, and
repeated ones have turns of their own. Owned by a coordinator."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from raftlog.errors import CoordinatorFenced, ProducerFenced, RaftlogError, UnknownPartition, UnknownTopic
from raftlog.partitions.deadline import Deadline, deadline_in
from raftlog.partitions.groups.results import GroupMarker
from raftlog.partitions.transactions.environment import TransactionEnvironment
from raftlog.partitions.transactions.records import TransactionRecord, TransactionState

_logger = logging.getLogger(__name__)
_FIRST_ATTEMPT_MS: Final = 2_000
_ATTEMPT_MS: Final = 5_000
_PAUSE_S_MIN: Final = 0.02
_PAUSE_S_MAX: Final = 1.0
_SENT_MAX: Final = 1_024
"""Markers of one coordinator that are sent for the first time at once, and of those that are sent again."""
_SENT_OF_ONE_MAX: Final = 64
"""The same for the markers of one transaction."""
_Send = Callable[[Deadline], Awaitable[None]]
"""Function that sends one marker, once, until the deadline."""


class MarkerSender:
    """Sender of one coordinator's transaction markers; `is_over` ends all work."""

    def __init__(self, name: str, environment: TransactionEnvironment, is_over: Callable[[], bool]) -> None:
        """Prepare to send markers; `is_over` returns whether the coordinator has ended."""
        self._name, self._environment, self._is_over = name, environment, is_over
        self._first, self._repeated = asyncio.Semaphore(_SENT_MAX), asyncio.Semaphore(_SENT_MAX)

    async def send(self, record: TransactionRecord, coordinator_epoch: int) -> None:
        """Send the markers of a prepared transaction; return when all are written, or the coordinator is over."""
        is_commit = record.state is TransactionState.PREPARE_COMMIT
        marker = GroupMarker(record.producer_id, record.epoch, is_commit, coordinator_epoch, record.number)
        environment = self._environment
        sends: list[_Send] = [partial(environment.end_partition, place, marker) for place in record.partitions]
        sends += [partial(environment.end_group, group, marker) for group in record.groups]
        first, repeated = asyncio.Semaphore(_SENT_OF_ONE_MAX), asyncio.Semaphore(_SENT_OF_ONE_MAX)
        if len(sends) == 1:
            await self._send_until_written(sends[0], first, repeated)
        else:
            async with asyncio.TaskGroup() as tasks:
                for send in sends:
                    tasks.create_task(self._send_until_written(send, first, repeated))

    async def _send_until_written(self, send: _Send, first: asyncio.Semaphore, repeated: asyncio.Semaphore) -> None:
        """Send one marker until it is written; `first` and `repeated` limit the attempts of its transaction."""
        async with first, self._first:
            pause_s = await self._try(send, _FIRST_ATTEMPT_MS, _PAUSE_S_MIN)
        while pause_s is not None:
            await asyncio.sleep(pause_s)
            async with repeated, self._repeated:
                pause_s = await self._try(send, _ATTEMPT_MS, min(2 * pause_s, _PAUSE_S_MAX))

    async def _try(self, send: _Send, attempt_ms: int, pause_s: float) -> float | None:
        """Send a marker once; return the pause before the next attempt, and None if none is needed.

        A fenced coordinator tries slowly until it is over."""
        if self._is_over():
            return None
        try:
            await send(deadline_in(attempt_ms))
        except (UnknownTopic, UnknownPartition, ProducerFenced) as error:
            _logger.debug("%s: a marker is not needed: %s", self._name, error)
        except CoordinatorFenced as error:
            _logger.warning("%s: a newer coordinator has written a marker: %s", self._name, error)
            return _PAUSE_S_MAX
        except RaftlogError as error:
            _logger.debug("%s: a marker is sent again: %s", self._name, error)
            return pause_s
        return None
