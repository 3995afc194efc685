"""Expiry of idle producers by committed marks, after `producer.id.expiration.ms` without a batch.

The leader measures the time since a producer's last batch, a new leader the time since its first check, by the event
loop's clock. So no producer expires early because a replica was slow or unreachable, and every replica expires the same
producers at the same entry.
Owned by a replica."""

import asyncio
import logging
from collections.abc import Iterator
from itertools import islice
from typing import Final

from raftlog.errors import RaftlogError
from raftlog.partitions.replica.producer_state import ProducerState
from raftlog.partitions.replica.producers import EXPIRED_MAX
from raftlog.partitions.replica.sequence_check import SequenceCheck
from raftlog.runtime.replica.partition_replica import Committed, PartitionReplica
from raftlog.types import Term

_logger = logging.getLogger(__name__)
_LOOKED_AT_MAX: Final = 4 * EXPIRED_MAX


class ProducerExpiry:
    """Expiry of one replica's producers; `propose_if_due` is called periodically."""

    def __init__(self, name: str, group: PartitionReplica, state: ProducerState, sequence_check: SequenceCheck) -> None:
        """Prepare to expire silent producers of the replica `name`, while it leads."""
        self._name, self._group, self._state, self._sequence_check = name, group, state, sequence_check
        self._heard_ms: dict[int, int] = {}
        """Time of each producer's last batch, the longest silent ones first."""
        self._term = Term(0)
        """Term in which this replica, as leader, measures how long producers are silent."""
        self._mark: asyncio.Future[Committed] | None = None
        """Expiry mark that was proposed, and is not yet committed or rejected."""

    def propose_if_due(self, expiration_ms: int, now_ms: int) -> None:
        """Propose a mark for the producers that are due; `now_ms` is by the loop's clock."""
        if not self._sequence_check.can_decide():
            return
        table, heard = self._state.table, self._sequence_check.heard
        if self._term != self._group.core.term:
            self._term, self._heard_ms = self._group.core.term, dict.fromkeys(table, now_ms)
        for producer_id in heard:
            self._heard_ms.pop(producer_id, None)
            self._heard_ms[producer_id] = now_ms
        heard.clear()
        if self._mark is not None:
            return
        due = list(islice(self._due_producers(now_ms - expiration_ms), EXPIRED_MAX))
        if not due:
            return
        try:
            self._mark = self._sequence_check.expire(due, "silent")
        except RaftlogError as error:
            _logger.info("%s: producers are expired later: %s", self._name, error)
            return
        self._mark.add_done_callback(self._on_outcome)

    def _due_producers(self, before_ms: int) -> Iterator[tuple[int, int]]:
        """Yield ids and epochs of producers that sent no batch since `before_ms` and have nothing in flight."""
        for producer_id, heard_ms in list(islice(self._heard_ms.items(), _LOOKED_AT_MAX)):
            if heard_ms > before_ms:
                return
            known = self._state.table.get(producer_id)
            if known is None:
                del self._heard_ms[producer_id]
            elif not self._sequence_check.is_busy(producer_id):
                yield producer_id, known.epoch

    def _on_outcome(self, mark: "asyncio.Future[Committed]") -> None:
        """Allow the next proposal; log a failed one, which is repeated later."""
        self._mark = None
        if mark.exception() is not None:
            _logger.info("%s: producers are expired later: %s", self._name, mark.exception())
