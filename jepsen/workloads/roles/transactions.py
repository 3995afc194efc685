"""Transactions of a producer: lists of records in several partitions, and transfers between accounts.

    list       records for some partitions, and reads of all committed records that came since the last read
    transfer   two records whose amounts add up to 0, in two partitions

A transaction is committed, aborted, or left open; the next producer of the same transactional id aborts an open one. At
times a producer waits within a transaction for longer than its timeout. Without an attempt to commit, the outcome is a
definite `fail`, regardless of the answers."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress
from random import Random
from typing import Final

from jepsen.checkers import Append, Op, Scan, Transaction
from jepsen.checkers.history import TXN
from jepsen.workloads.adapters.transactional import TransactionalLibrary, TransactionalProducer, TransactionSettings
from jepsen.workloads.client.access import Access
from jepsen.workloads.client.recording import HistoryWriter
from jepsen.workloads.client.values import make_payload
from raftlog.errors import RaftlogError
from raftlog.types import Offset, TopicPartition

TIMEOUT_MS: Final = 6_000
REQUEST_MS: Final = 3_000
ABORTS, LEFT_OPEN, STALLS = 0.12, 0.03, 0.004
TRANSFERS, SCANS = 0.3, 0.25
STEPS_MAX: Final = 4
MOMENT_S: Final = 0.2
_PAYLOAD_BYTES: Final = (10, 100, 1000)
Step = Append | Scan


class Aborted(RaftlogError):
    """End of a transaction that its client did not want to commit."""


class Scanner:
    """Reader of all committed records of partitions, each from the end of its last read."""

    def __init__(self, access: Access, random: Random) -> None:
        self._access, self._random = access, random
        self._positions: dict[TopicPartition, int] = {}

    async def read(self, place: TopicPartition) -> Scan:
        """Read up to the read-committed end: the offset at which a fetch returns nothing."""
        at = start = self._positions.get(place, 0)
        offsets: list[Offset] = []
        values = []
        while True:
            found = await self._access.fetch(self._access.draw_node(self._random), place, at, 0)
            offsets += found.offsets
            values += found.values
            if found.next_offset == at:
                break
            at = found.next_offset
        self._positions[place] = at
        return Scan(place, Offset(start), Offset(at), tuple(offsets), tuple(values))


class Attempt:
    """Open transaction, and its entry in the history."""

    def __init__(self, history: HistoryWriter, process: int, plan: Transaction) -> None:
        self._history, self._plan = history, plan
        self._done: list[Step] = []
        self._is_committing = False
        self._invocation: Op = history.invoke(process, TXN, plan)

    def add(self, step: Step) -> None:
        """Add an executed step."""
        self._done.append(step)

    async def commit(self, producer: TransactionalProducer) -> None:
        """Commit the transaction, and record its outcome."""
        self._is_committing = True
        await producer.commit()
        self._history.ok(self._invocation, self._result())

    def end(self, error: RaftlogError) -> None:
        """Record the end of a transaction that was not committed, or whose commit failed."""
        is_unknown = self._is_committing and error.outcome != "failed"
        complete = self._history.info if is_unknown else self._history.fail
        complete(self._invocation, f"{type(error).__name__}: {error}", payload=self._result())

    def _result(self) -> Transaction:
        """Return the transaction with its executed steps, and then the planned records that were not appended."""
        done = {(step.partition, step.value) for step in self._done if isinstance(step, Append)}
        missing = [each for each in self._plan.appends() if (each.partition, each.value) not in done]
        return self._plan._replace(steps=(*self._done, *missing))


class Transactor:
    """Role that executes transactions in one process of the history; a new producer replaces one that failed."""

    def __init__(
        self,
        library: TransactionalLibrary,
        history: HistoryWriter,
        process: int,
        lists: Sequence[TopicPartition],
        accounts: Sequence[TopicPartition],
        scanner: Scanner,
        values: Iterator[int],
        random: Random,
    ) -> None:
        """Create the role.

        Its transactions append to and read the partitions `lists`, and transfer amounts between `accounts`."""
        self._library, self._history, self._process = library, history, process
        self._lists, self._accounts = lists, accounts
        self._scanner, self._values, self._random = scanner, values, random
        self._settings = TransactionSettings(f"transactor-{process}", TIMEOUT_MS, REQUEST_MS)

    async def run(self, until_s: float) -> None:
        """Execute transactions until `until_s` (event-loop time); after an error, begin again with a new producer."""
        loop = asyncio.get_running_loop()
        while loop.time() < until_s:
            producer = self._library.new_producer(self._settings)
            try:
                await producer.start()
                while loop.time() < until_s:
                    if not await self._transact(producer):
                        break
            except RaftlogError:
                await asyncio.sleep(MOMENT_S)
            finally:
                await producer.close()

    async def _transact(self, producer: TransactionalProducer) -> bool:
        """Execute a transaction; return False if the producer left it open. Raises the error that ended it."""
        await producer.begin()
        attempt = Attempt(self._history, self._process, Transaction(tuple(self._draw_steps())))
        draw = self._random.random()
        try:
            for step in attempt._plan.steps:
                if self._random.random() < STALLS:
                    await asyncio.sleep(1.5 * TIMEOUT_MS / 1000)
                attempt.add(await self._execute(producer, step))  # type: ignore[arg-type]
            if draw < LEFT_OPEN:
                attempt.end(Aborted("left open"))
                return False
            if draw < LEFT_OPEN + ABORTS:
                await producer.abort()
                attempt.end(Aborted("by its client"))
            else:
                await attempt.commit(producer)
        except RaftlogError as error:
            attempt.end(error)
            with suppress(RaftlogError):
                await producer.abort()
            raise
        except asyncio.CancelledError:
            self._history.crash(self._process)
            raise
        return True

    def _draw_steps(self) -> Iterator[Step]:
        """Yield the steps of a random transaction: a transfer between two accounts, or appends and reads."""
        if self._random.random() < TRANSFERS:
            amount = self._random.randint(1, 100)
            for place, change in zip(self._random.sample(self._accounts, 2), (-amount, amount), strict=True):
                yield Append(place, next(self._values), amount=change)
            return
        for _ in range(self._random.randint(1, STEPS_MAX)):
            place = self._random.choice(self._lists)
            yield Scan(place) if self._random.random() < SCANS else Append(place, next(self._values))

    async def _execute(self, producer: TransactionalProducer, step: Step) -> Step:
        """Execute a step; return it with the offset or the records."""
        if isinstance(step, Scan):
            return await self._scanner.read(step.partition)
        assert not isinstance(step.value, str), step
        payload = make_payload(step.value, self._random.choice(_PAYLOAD_BYTES))
        return step._replace(offset=await producer.append(step.partition, payload))
