"""Log with transactions in the memory of this process: correct, or wrong in one way on purpose.

It has no faults, but commits may have an unknown outcome, and a producer may be fenced by its successor."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Final, Literal, NamedTuple

from jepsen.workloads.adapters.library import ConsumedRecord
from jepsen.workloads.adapters.transactional import ChainSettings, TransactionSettings
from jepsen.workloads.client.access import FoundBatches
from jepsen.workloads.client.values import parse_payload
from raftlog.errors import InvalidArgument, OutcomeUnknown, ProducerFenced
from raftlog.types import Offset, TopicPartition

Bug = Literal[
    "loses a marker",
    "shows open records",
    "ends a read between two records",
    "shows aborted records",
    "shows pending offsets",
    "commits offsets without records",
    "commits records without offsets",
    "does not fence",
]
UNKNOWN: Final = 0.1
"""Share of commits that are not answered; half of them happened."""
FETCHED_MAX: Final = 7


class ModelTransaction:
    """Transaction, whose end may differ between partitions in a log with a bug."""

    def __init__(self) -> None:
        self.is_open = True
        self.is_committed: dict[TopicPartition, bool] = {}
        self.offsets: dict[TopicPartition, int] = {}
        self.places: set[TopicPartition] = set()


class Entry(NamedTuple):
    """Record, or a marker without value."""

    value: bytes | None
    transaction: ModelTransaction | None


class TransactionalModel:
    """Partitions, transactional ids and one group."""

    def __init__(self, seed: int, bug: Bug | None = None) -> None:
        self.random, self.bug = Random(seed), bug
        self.entries: dict[TopicPartition, list[Entry]] = {}
        self.epochs: dict[str, int] = {}
        self.open: dict[str, ModelTransaction] = {}
        self.committed: dict[TopicPartition, int] = {}
        self.chained = 0
        """Number of committed transactions with records and offsets."""

    def append(self, place: TopicPartition, value: bytes | None, transaction: ModelTransaction | None = None) -> Offset:
        entries = self.entries.setdefault(place, [])
        entries.append(Entry(value, transaction))
        if transaction is not None:
            transaction.places.add(place)
        return Offset(len(entries) - 1)

    def end(self, transaction: ModelTransaction, *, is_commit: bool) -> None:
        """Write the markers of a transaction."""
        transaction.is_open = False
        takes_part = is_commit and self.bug is not None and self.random.random() < 0.2
        lost = self.random.choice(sorted(transaction.places)) if takes_part and transaction.places else None
        for place in sorted(transaction.places):
            transaction.is_committed[place] = is_commit and not (self.bug == "loses a marker" and place == lost)
            if takes_part and self.bug == "commits offsets without records" and transaction.offsets:
                transaction.is_committed[place] = False
            self.append(place, None)
        self.chained += is_commit and bool(transaction.places) and bool(transaction.offsets)
        if is_commit and not (takes_part and self.bug == "commits records without offsets"):
            self.committed |= transaction.offsets

    def end_offset(self, place: TopicPartition) -> int:
        """Return the last stable offset."""
        entries = self.entries.get(place, [])
        unstable = (at for at, each in enumerate(entries) if each.transaction is not None and each.transaction.is_open)
        first = next(unstable, len(entries))
        if self.bug == "shows open records":
            return len(entries)
        return min(first + 1, len(entries)) if self.bug == "ends a read between two records" else first

    def read(self, place: TopicPartition, offset: int) -> tuple[list[tuple[int, bytes]], int]:
        """Return committed records from an offset on, and the offset after them."""
        end = min(self.end_offset(place), offset + FETCHED_MAX)
        found = []
        for at in range(offset, end):
            value, transaction = self.entries[place][at]
            is_shown = transaction is None or transaction.is_open or transaction.is_committed.get(place, False)
            if value is not None and (is_shown or self.bug == "shows aborted records"):
                found.append((at, value))
        return found, max(end, offset)

    # access of readers

    def draw_node(self, random: Random) -> int:
        return 0

    def fetcher(self) -> "TransactionalModel":
        return self

    async def fetch(self, node: int, place: TopicPartition, offset: int, timeout_ms: int) -> FoundBatches:
        found = FoundBatches(place, offset)
        records, found.next_offset = self.read(place, offset)
        found.offsets = [Offset(at) for at, _ in records]
        found.values = [parse_payload(value) for _, value in records]
        return found


class ModelProducer:
    """`TransactionalProducer` of the model."""

    def __init__(self, model: TransactionalModel, settings: TransactionSettings) -> None:
        self._model, self._id = model, settings.transactional_id
        self._epoch = -1

    async def start(self) -> None:
        self._epoch = self._model.epochs[self._id] = self._model.epochs.get(self._id, 0) + 1
        former = self._model.open.pop(self._id, None)
        if former is not None:
            self._model.end(former, is_commit=False)

    def _check(self) -> None:
        if self._model.epochs[self._id] != self._epoch and self._model.bug != "does not fence":
            raise ProducerFenced("a newer producer has the id")

    async def begin(self, consumer: object = None) -> None:
        self._check()
        self._model.open[self._id] = ModelTransaction()

    async def append(self, place: TopicPartition, value: bytes) -> Offset:
        self._check()
        return self._model.append(place, value, self._model.open[self._id])

    async def commit_offsets(self, offsets: Mapping[TopicPartition, int], consumer: Any) -> None:
        self._check()
        self._model.open[self._id].offsets |= offsets
        if self._model.bug == "shows pending offsets":
            self._model.committed |= offsets

    async def commit(self) -> None:
        self._check()
        draw = self._model.random.random()
        if draw >= UNKNOWN / 2:
            self._model.end(self._model.open.pop(self._id), is_commit=True)
        if draw < UNKNOWN:
            raise OutcomeUnknown("no answer")

    async def abort(self) -> None:
        self._check()
        transaction = self._model.open.pop(self._id, None)
        if transaction is None:
            raise InvalidArgument("no transaction is open")
        self._model.end(transaction, is_commit=False)

    async def close(self) -> None:
        """Leave the transaction open."""


class ModelConsumer:
    """`ChainConsumer` of the model, of fixed partitions."""

    def __init__(self, model: TransactionalModel, settings: ChainSettings) -> None:
        self._model = model
        self._places = [TopicPartition(settings.topic, number) for number in settings.partitions]
        self._positions: dict[TopicPartition, int] = {}

    async def start(self) -> None:
        self._positions = {place: self._model.committed.get(place, 0) for place in self._places}

    async def poll(self, timeout_ms: int) -> Sequence[ConsumedRecord]:
        place = self._model.random.choice(self._places)
        records, self._positions[place] = self._model.read(place, self._positions[place])
        return [ConsumedRecord(*place, at, 0, None, value, []) for at, value in records]

    async def stable(self, timeout_ms: int) -> dict[TopicPartition, Offset | None]:
        found = {place: self._model.committed.get(place) for place in self._places}
        return {place: None if at is None else Offset(at) for place, at in found.items()}

    async def close(self) -> None:
        """Do nothing."""


class ModelLibrary:
    """`TransactionalLibrary` of the model."""

    names_members: Final = False

    def __init__(self, model: TransactionalModel) -> None:
        self._model = model

    def new_producer(self, settings: TransactionSettings) -> ModelProducer:
        return ModelProducer(self._model, settings)

    def new_consumer(self, settings: ChainSettings) -> ModelConsumer:
        return ModelConsumer(self._model, settings)

    async def close(self) -> None:
        """Do nothing."""
