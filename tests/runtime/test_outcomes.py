"""Outcomes of proposals, admission of entries, and rolls: each rule on logs made by hand."""

import asyncio
import uuid
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from raftlog.errors import LogClosed, NotLeader, OutcomeUnknown
from raftlog.raft import Accepted, Entry, EntryId
from raftlog.records import ControlKind, NewRecord, build_batch, build_control_batch, stamp
from raftlog.runtime.config import GroupLimits
from raftlog.runtime.histogram import Histogram
from raftlog.runtime.log.control_entries import CompactionMark, entry_of
from raftlog.runtime.log.group_log import GroupLog
from raftlog.runtime.log.leftovers import end_of_leftovers
from raftlog.runtime.replica.admission import end_of_entries
from raftlog.runtime.replica.proposals import Committed, Proposals
from raftlog.runtime.replica.rolls import Rolls
from raftlog.storage.roll import Roll, encode_roll
from raftlog.types import Index, Offset, Term
from tests.storage.test_replica_log import Replica, make_three_segments

GROUP = uuid.UUID(int=7)


# proposals


class Log:
    """Log whose entry n has offset n; `terms` by index from 1 on, and none below `boundary`."""

    def __init__(self, *terms: int, boundary: int = 0) -> None:
        self._terms = terms
        self.boundary = EntryId(Index(boundary), Term(1))

    def term_at(self, index: int) -> int:
        assert index > self.boundary.index
        return self._terms[index - 1]

    def offset_of(self, index: int) -> int:
        return index


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


def outcome(loop: asyncio.AbstractEventLoop, log: Log, first: int, last: int, term: int = 2) -> Any:
    """Return the outcome of a proposal of entries `first` to `last` in a term, once they are delivered."""
    proposals = Proposals("t/0", log, Histogram())  # type: ignore[arg-type]
    future: asyncio.Future[Committed] = loop.create_future()
    proposals.add(Accepted(Term(term), Index(first), Index(last)), future, lambda committed: committed)
    proposals.settle(Index(last), None)
    return future.exception() or future.result()


def test_a_proposal_succeeded_when_its_last_entry_has_its_term(loop: asyncio.AbstractEventLoop) -> None:
    assert outcome(loop, Log(1, 2, 2), 2, 3) == (2, 2, 3, 2, 4)


def test_a_proposal_failed_when_its_first_entry_was_replaced(loop: asyncio.AbstractEventLoop) -> None:
    assert isinstance(outcome(loop, Log(1, 3, 3), 2, 3), NotLeader)


def test_a_proposal_with_only_its_first_entries_left_is_unknown(loop: asyncio.AbstractEventLoop) -> None:
    assert isinstance(outcome(loop, Log(1, 2, 3), 2, 3), OutcomeUnknown)


def test_a_proposal_with_trimmed_entries_is_unknown(loop: asyncio.AbstractEventLoop) -> None:
    assert isinstance(outcome(loop, Log(1, 2, 2, boundary=2), 2, 3), OutcomeUnknown)


def test_a_proposal_of_a_replica_that_stops_is_unknown(loop: asyncio.AbstractEventLoop) -> None:
    proposals = Proposals("t/0", Log(1), Histogram())  # type: ignore[arg-type]
    future: asyncio.Future[Committed] = loop.create_future()
    proposals.add(Accepted(Term(1), Index(2), Index(2)), future, lambda committed: committed)
    proposals.end(LogClosed("it stops"))
    assert isinstance(future.exception(), OutcomeUnknown)


# admission


def make_data_entry(index: int, offset: int, term: int = 3) -> Entry:
    batch = build_batch([NewRecord(b"x", timestamp=5)])
    stamp(batch, Offset(offset), Term(term))
    return entry_of(Index(index), Term(term), batch)


def make_roll_entry(index: int, group: uuid.UUID, base_index: int) -> Entry:
    payload = encode_roll(Roll(group, base_index, 2, 0, -1, 1000))
    batch = build_control_batch(ControlKind.ROLL, payload, 1000, next_offset=Offset(7))
    stamp(batch, Offset(7), Term(3))
    return entry_of(Index(index), Term(3), batch)


def flip_byte(entry: Entry, at: int) -> Entry:
    payload = bytearray(entry.payload)
    payload[at] ^= 1
    return entry._replace(payload=payload)


def test_valid_entries_are_admitted() -> None:
    assert end_of_entries((make_data_entry(4, 7), make_data_entry(5, 8)), GROUP) == 9
    assert end_of_entries((make_roll_entry(4, GROUP, 4),), GROUP) == 7


@pytest.mark.parametrize(
    "entries",
    [
        (flip_byte(make_data_entry(4, 7), -1),),
        (make_data_entry(4, 7)._replace(term=Term(4)),),
        (make_data_entry(4, 7), make_data_entry(5, 9)),
        (make_data_entry(4, 7)._replace(size_bytes=9),),
        (make_data_entry(4, 7)._replace(payload=bytearray(20), size_bytes=20),),
        (make_roll_entry(4, uuid.UUID(int=8), 4),),
        (make_roll_entry(4, GROUP, 5),),
    ],
    ids=["crc", "term", "offset", "size", "short", "group of a roll", "index of a roll"],
)
def test_mislabelled_entries_are_not_admitted(entries: tuple[Entry, ...]) -> None:
    assert end_of_entries(entries, GROUP) is None


# rolls, and the log of a group


def may_roll(*, proposed: int = 0, last: int = 9, written: int = 9, next_offset: int = 5) -> bool:
    active = SimpleNamespace(base_offset=3)
    log: Any = SimpleNamespace(
        last_index=last, written_index=written, next_offset=next_offset, segments=SimpleNamespace(active=active)
    )
    rolling = Rolls(GROUP, log, GroupLimits(segment_bytes=1000, segment_rows_max=1000, segment_ms=None))
    rolling.proposed_index = Index(proposed)
    return rolling.may_roll()


def test_a_roll_waits_for_the_previous_roll_the_files_and_a_record() -> None:
    assert may_roll()
    assert may_roll(proposed=9)
    assert not may_roll(proposed=10)
    assert not may_roll(written=8)
    assert not may_roll(next_offset=3)


def group_log(r: Replica) -> GroupLog:
    return GroupLog(r.log, 1 << 20)


def test_files_stay_up_to_an_uncommitted_roll() -> None:
    r = make_three_segments(publish=True)
    log = group_log(r)
    log.raise_log_start(Offset(10))
    rolls = [segment.base_index for segment in r.log.segments]
    assert end_of_leftovers(log.segments, Index(rolls[2])) == 10
    assert end_of_leftovers(log.segments, Index(rolls[2] - 1)) == 5
    assert end_of_leftovers(log.segments, Index(rolls[1] - 1)) is None


def test_a_compaction_mark_never_falls() -> None:
    log = group_log(make_three_segments(publish=True))
    log.raise_mark(CompactionMark(Offset(10), Offset(4)))
    log.raise_mark(CompactionMark(Offset(5), Offset(6)))
    assert log.mark == (10, 6)


def test_files_are_unchanged_until_a_cut_is_durable() -> None:
    r = make_three_segments(publish=True)
    log = group_log(r)
    before = r.disk.snapshot()
    assert log.cut_to(Index(15))
    log.append([make_data_entry(index, index - 3, term=4) for index in range(16, 23)])
    assert log.write()
    assert r.disk.snapshot() == before
    assert log.written_index == 15
    log.settle_cut()
    assert log.write()
    assert log.written_index == log.last_index == 22
