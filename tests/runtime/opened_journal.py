"""Small journal on a simulated disk, and helpers of its tests."""

from random import Random
from typing import NamedTuple

from jepsen.simulation.disk.simulated_disk import SimulatedDisk
from raftlog.records import NewRecord, build_batch
from raftlog.runtime.journal.config import JournalConfig
from raftlog.runtime.journal.fold import Fold
from raftlog.runtime.journal.journal import Journal
from raftlog.runtime.journal.operations import Append, GroupState, Mark
from raftlog.types import Index, Offset, Term
from tests.runtime.journal_twin import DISK, GROUPS, PATH, SMALL, end_of

ONE, TWO, _ = GROUPS
BATCH = bytes(build_batch([NewRecord(bytes(1000))]))


class Opened(NamedTuple):
    """Journal on its disk, and the reported durable sequences."""

    disk: SimulatedDisk
    journal: Journal
    durable: list[int]


def create_journal(config: JournalConfig = SMALL, *, capacity: int | None = None, seed: int = 1) -> Opened:
    disk = SimulatedDisk(Random(seed), capacity_bytes=capacity)
    journal, fold = Journal.open(disk, PATH, DISK, config, create=True)
    assert not fold.groups
    durable: list[int] = []
    journal.on_durable = durable.append
    return Opened(disk, journal, durable)


def reopen_after_power_loss(disk: SimulatedDisk, config: JournalConfig = SMALL) -> tuple[Journal, Fold]:
    disk.power_loss()
    return Journal.open(disk, PATH, DISK, config)


def append_one(journal: Journal, index: int, group: bytes = ONE, batch: bytes = BATCH) -> int:
    return journal.append([Append(group, Index(index), Index(index), [batch])])


def make_state(group: bytes, last: int, term: int = 1) -> GroupState:
    end = end_of({last: b""})
    return GroupState(group, Mark.CREATED, Term(term), None, Offset(0), end, Index(0))


def fill(opened: Opened, first: int, count: int, group: bytes = ONE) -> int:
    for index in range(first, first + count):
        append_one(opened.journal, index, group)
        opened.journal.flush()
        opened.disk.complete_all()
    return first + count
