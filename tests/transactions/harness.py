"""Coordinator of transactions over a log in memory; the test commits entries and answers markers."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

from raftlog.errors import RaftlogError, Unavailable
from raftlog.partitions.deadline import Deadline, deadline_in
from raftlog.partitions.groups.results import GroupMarker
from raftlog.partitions.results import ConfirmedTransaction
from raftlog.partitions.transactions.coordinator import TransactionCoordinator
from raftlog.partitions.transactions.environment import TransactionCounters, TransactionEnvironment
from raftlog.partitions.transactions.records import (
    ProducerIdAndEpoch,
    TransactionPlace,
    TransactionRecord,
    TransactionState,
)
from raftlog.partitions.transactions.results import (
    AddToTransaction,
    EndTransaction,
    InitializeProducer,
    VerifyTransaction,
)
from raftlog.partitions.transactions.settings import TransactionSettings
from raftlog.types import FEATURE_LEVEL_TRANSACTIONS, Term
from tests.groups.test_coordinator import Replica
from tests.waiting import until_async

ID = "tx"
TOPIC, DELETED = UUID(int=7), UUID(int=8)
PLACE, PLACE_2 = (TOPIC, 0), (TOPIC, 1)
TIMEOUT_MS = 60_000
TURNS = 10
"""Turns of the loop in which a task that waits for nothing from outside gets as far as it can."""


class Coordination:
    """Coordinator with a log, a wall clock and participants that the test controls."""

    def __init__(self, replica: Any = None, **settings: int) -> None:
        self.replica: Any = Replica() if replica is None else replica
        self.now_ms, self.next_id = 1_000_000, 100
        self.markers: list[tuple[TransactionPlace | str, GroupMarker]] = []
        """Markers in the order in which they were sent."""
        self.failures: dict[TransactionPlace | str, list[RaftlogError]] = {}
        """Errors of the next markers to a participant."""
        self.unreachable: set[TransactionPlace | str] = set()
        """Participants that answer no marker until its deadline."""
        self.answers = asyncio.Event()
        """Set while participants answer."""
        self.answers.set()
        self.counters = TransactionCounters()
        environment = TransactionEnvironment(
            TransactionSettings(**settings),
            wall_ms=lambda: self.now_ms,
            counters=self.counters,
            feature_level=lambda: FEATURE_LEVEL_TRANSACTIONS,
            new_producer_id=self.allocate,
            end_partition=self.mark,
            end_group=self.mark,
        )
        self.coordinator = TransactionCoordinator(self.replica, environment, lambda coordinator: coordinator.end())

    async def allocate(self, deadline: Deadline) -> int:
        self.next_id += 1
        return self.next_id

    async def mark(self, participant: TransactionPlace | str, marker: GroupMarker, deadline: Deadline) -> None:
        self.markers.append((participant, marker))
        await self.answers.wait()
        if participant in self.unreachable:
            await asyncio.sleep(deadline - asyncio.get_running_loop().time())
            raise Unavailable("no answer")
        failures = self.failures.get(participant)
        if failures:
            raise failures.pop(0)

    async def run(self, work: Awaitable[Any]) -> Any:
        """Await a request; commit every entry that is appended meanwhile."""
        task = asyncio.ensure_future(work)
        await self.step_until(task.done)
        return task.result()

    async def step(self) -> None:
        """Run pending tasks, commit what was appended, and run the tasks that waited for it."""
        await self._run_tasks()
        while self.replica.waiting:
            self.replica.commit()
        await self._run_tasks()

    async def _run_tasks(self) -> None:
        for _ in range(TURNS):
            await asyncio.sleep(0)

    async def step_until(self, condition: Callable[[], object]) -> None:
        """Step until the condition is true."""

        async def is_so() -> object:
            await self.step()
            return condition()

        await until_async(is_so)

    async def settle(self, name: str = ID) -> TransactionRecord:
        """Commit entries until no transition is under way; return the record."""
        await self.step_until(lambda: name not in self.coordinator._transitions)
        return self.coordinator.folded.records[name]

    async def load(self) -> None:
        assert await self.coordinator.load()

    async def successor(self) -> "Coordination":
        """Return the next coordinator, in the next term, with the same log."""
        self.coordinator.end()
        for future, _ in self.replica.waiting:
            future.cancel()
        replica = Replica()
        replica.batches, replica.core.term = list(self.replica.batches), Term(self.replica.core.term + 1)
        found = Coordination(replica)
        found.next_id = self.next_id
        await found.load()
        return found

    # requests

    async def initialize(self, expected: ProducerIdAndEpoch | None = None, name: str = ID) -> ProducerIdAndEpoch:
        asked = InitializeProducer(name, TIMEOUT_MS, *(expected or ()))
        found: ProducerIdAndEpoch = await self.run(self.coordinator.initialize(asked, soon()))
        return found

    async def add(
        self, producer: ProducerIdAndEpoch, *places: TransactionPlace, group: str = "", name: str = ID
    ) -> None:
        groups = (group,) if group else ()
        await self.run(self.coordinator.add(AddToTransaction(name, *producer, places, groups), soon()))

    async def join(
        self, producer: ProducerIdAndEpoch, *places: TransactionPlace, group: str = ""
    ) -> ConfirmedTransaction:
        groups = (group,) if group else ()
        asked = AddToTransaction(ID, *producer, places, groups)
        found: ConfirmedTransaction = await self.run(self.coordinator.join(asked, soon()))
        return found

    async def end(self, producer: ProducerIdAndEpoch, *, is_commit: bool = True, name: str = ID) -> None:
        await self.run(self.coordinator.end_transaction(EndTransaction(name, *producer, is_commit), soon()))

    async def verify(
        self, producer: ProducerIdAndEpoch, place: TransactionPlace | None = PLACE, group: str | None = None
    ) -> int:
        asked = VerifyTransaction(ID, *producer, place, group, is_confirmed=False)
        found: int = await self.run(self.coordinator.verify(asked, soon()))
        return found

    @property
    def state(self) -> TransactionState:
        return self.coordinator.folded.records[ID].state


def soon(milliseconds: int = 10_000) -> Deadline:
    return deadline_in(milliseconds)
