"""Appends to a coordinator's log: one per turn of the loop, in order, in one term, with pending records in view."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from raftlog.errors import FormatError, InvalidArgument, NotLeader, OutcomeUnknown, Overloaded, RaftlogError
from raftlog.partitions.coordinator import log as writing
from raftlog.partitions.coordinator.log import LogWriter
from raftlog.partitions.groups.folded import FoldedGroups, GroupEntry
from raftlog.partitions.groups.records import (
    INSTANCE_BYTES_MAX,
    GroupKey,
    InstanceKey,
    OffsetKey,
    OffsetRecord,
    encode_key,
    encode_value,
)
from raftlog.partitions.replica import Replica, ReplicaAppended
from raftlog.records import NewRecord, build_batch, read_header, read_records
from raftlog.runtime.replica.partition_replica import PartitionReplica
from raftlog.types import Offset, Term
from tests.undecodable import SMALL

TOPIC = UUID(int=7)
NOW_MS = 1_000


def offset_key(partition: int = 0, group: str = "g") -> OffsetKey:
    return OffsetKey(group, TOPIC, partition)


def make_entry(offset: int, partition: int = 0) -> GroupEntry:
    return GroupEntry(offset_key(partition), OffsetRecord(Offset(offset), -1, "", NOW_MS))


class Log:
    """Stand-in for a replica and its Raft group: appended records wait for the test to commit or refuse them."""

    def __init__(self) -> None:
        self.name = "log"
        self.is_leader = True
        self.group = self
        self.core = SimpleNamespace(term=Term(3), leader=None, last_id=SimpleNamespace(index=0))
        self.applied_index = 0
        self.unreadable: dict[str, str] = {}
        self.is_closed = False
        self.log_start_offset = Offset(0)
        self.batches: list[bytes] = []
        self.waiting: list[tuple[asyncio.Future[ReplicaAppended], list[bytes]]] = []
        self.refusal: RaftlogError | None = None
        """Error with which appends are refused at once."""

    def append(self, batches: list[bytearray], acks: int) -> "asyncio.Future[ReplicaAppended]":
        assert acks == -1
        future: asyncio.Future[ReplicaAppended] = asyncio.get_running_loop().create_future()
        if self.refusal is not None:
            future.set_exception(self.refusal)
        else:
            self.waiting.append((future, [bytes(batch) for batch in batches]))
        return future

    @property
    def high_watermark(self) -> int:
        return sum(read_header(batch).record_count for batch in self.batches)

    def commit(self) -> None:
        future, batches = self.waiting.pop(0)
        base = self.high_watermark
        for batch in batches:
            self._store(batch)
        future.set_result(ReplicaAppended(Offset(base), Offset(self.high_watermark), 3, Offset(self.high_watermark)))

    def append_by_others(self, *records: NewRecord) -> None:
        self._store(bytes(build_batch(list(records))))

    def _store(self, batch: bytes) -> None:
        stamped = bytearray(batch)
        stamped[0:8] = self.high_watermark.to_bytes(8)
        self.batches.append(bytes(stamped))

    def read(self, offset: int, max_bytes: int) -> list[bytes]:
        return [batch for batch in self.batches if read_header(batch).next_offset > offset]


class WriterHarness:
    """Writer with the folded state of its log."""

    def __init__(self) -> None:
        self.log = Log()
        self.folded = FoldedGroups("log", lambda: 1)
        self.writer = LogWriter(cast(Replica, self.log), Term(3), self.folded, lambda: NOW_MS, self.reach)

    def reach(self, appended: ReplicaAppended) -> bool:
        while self.folded.next_offset < appended.base_offset:
            self.read_on()
        return self.folded.next_offset == appended.base_offset

    def read_on(self) -> None:
        self.folded.read_on(cast(PartitionReplica, self.log))


@pytest.fixture
async def harness() -> WriterHarness:
    return WriterHarness()


async def run_loop_turn() -> None:
    await asyncio.sleep(0)
    await asyncio.sleep(0)


def committed_offset(harness: WriterHarness) -> dict[int, int]:
    return {place[1]: int(record.offset) for place, record in harness.folded.offsets.get("g", {}).items()}


async def test_records_of_one_turn_are_one_append_in_order(harness: WriterHarness) -> None:
    done = [harness.writer.write([make_entry(5)]), harness.writer.write([make_entry(2), make_entry(9, 1)])]
    assert not harness.log.waiting
    await run_loop_turn()
    ((_, batches),) = harness.log.waiting
    assert [record.offset for batch in batches for record in read_records(batch)] == [0, 1, 2]
    assert committed_offset(harness) == {}
    harness.log.commit()
    await asyncio.gather(*done)
    assert committed_offset(harness) == {0: 2, 1: 9}
    assert harness.folded.next_offset == 3


async def test_no_entries_are_written_at_once_and_append_nothing(harness: WriterHarness) -> None:
    await harness.writer.write([])
    await run_loop_turn()
    assert not harness.log.waiting


async def test_entries_written_during_an_append_are_the_next_one(harness: WriterHarness) -> None:
    first = harness.writer.write([make_entry(5)])
    await run_loop_turn()
    later = [harness.writer.write([make_entry(7, 1)])]
    await run_loop_turn()
    later.append(harness.writer.write([make_entry(8, 2)]))
    await run_loop_turn()
    assert len(harness.log.waiting) == 1

    async def write_after_the_first() -> None:
        """Write with the completion of the first append."""
        await first
        later.append(harness.writer.write([make_entry(9, 3)]))

    task = asyncio.create_task(write_after_the_first())
    await run_loop_turn()
    harness.log.commit()
    await task
    await run_loop_turn()
    ((_, batches),) = harness.log.waiting
    assert [record.offset for batch in batches for record in read_records(batch)] == [0, 1, 2]
    harness.log.commit()
    await asyncio.gather(*later)
    assert committed_offset(harness) == {0: 5, 1: 7, 2: 8, 3: 9}


async def test_entries_wait_for_no_append_that_failed(harness: WriterHarness) -> None:
    first = harness.writer.write([make_entry(5)])
    await run_loop_turn()
    second = harness.writer.write([make_entry(8)])
    harness.log.waiting.pop()[0].set_exception(Overloaded("full"))
    with pytest.raises(Overloaded):
        await first
    await run_loop_turn()
    harness.log.commit()
    await second
    third = harness.writer.write([make_entry(9)])
    await run_loop_turn()
    harness.log.commit()
    await third
    assert committed_offset(harness) == {0: 9}


async def test_pending_offsets_are_the_latest_until_they_are_refused(harness: WriterHarness) -> None:
    first = harness.writer.write([make_entry(5)])
    await run_loop_turn()
    second = harness.writer.write([make_entry(8)])
    await run_loop_turn()
    latest = harness.folded.latest_offset(offset_key())
    assert latest is not None
    assert latest.offset == 8
    harness.log.commit()
    await first
    await run_loop_turn()
    ((refused, _),) = harness.log.waiting
    refused.set_exception(NotLeader("gone"))
    with pytest.raises(NotLeader):
        await second
    latest = harness.folded.latest_offset(offset_key())
    assert latest is not None
    assert latest.offset == 5
    assert committed_offset(harness) == {0: 5}
    assert harness.folded.latest_offsets("g").keys() == {offset_key()}


async def test_nothing_is_appended_in_another_term(harness: WriterHarness) -> None:
    given = harness.writer.write([make_entry(5)])
    harness.log.core.term = Term(4)  # deposed and elected again, before any member noticed
    await run_loop_turn()
    assert not harness.log.waiting
    assert given.done()
    with pytest.raises(NotLeader):
        await given
    with pytest.raises(NotLeader):
        harness.writer.write([make_entry(6)])
    assert harness.folded.latest_offset(offset_key()) is None


async def test_records_of_other_writers_are_read(harness: WriterHarness) -> None:
    done = harness.writer.write([make_entry(5)])
    await run_loop_turn()
    harness.log.append_by_others(make_record(offset_key(3), OffsetRecord(Offset(4), -1, "", NOW_MS)))
    harness.log.commit()
    await done
    assert committed_offset(harness) == {0: 5, 3: 4}


async def test_records_read_already_are_not_duplicated(harness: WriterHarness) -> None:
    done = harness.writer.write([make_entry(5)])
    await run_loop_turn()
    harness.log.commit()
    harness.read_on()  # before the writer hears of it
    await done
    assert committed_offset(harness) == {0: 5}
    assert harness.folded.next_offset == 1


async def test_a_barrier_waits_for_all_earlier_records(harness: WriterHarness) -> None:
    assert harness.writer.barrier() is None
    harness.writer.write([make_entry(5)])
    unflushed = harness.writer.barrier()
    await run_loop_turn()
    in_flight = harness.writer.barrier()
    assert unflushed is not None
    assert in_flight is not None
    assert not unflushed.done()
    harness.log.commit()
    await asyncio.gather(unflushed, in_flight)
    assert harness.writer.barrier() is None
    lost = harness.writer.write([make_entry(6)])
    await run_loop_turn()
    barrier = harness.writer.barrier()
    harness.log.waiting.pop()[0].set_exception(OutcomeUnknown("nobody knows"))
    for each in (lost, barrier):
        assert each is not None
        with pytest.raises(OutcomeUnknown):
            await each


async def test_pending_records_are_bounded(harness: WriterHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "PENDING_BYTES_MAX", 1_000)
    given = [harness.writer.write([make_entry(offset)]) for offset in range(5)]
    with pytest.raises(Overloaded):
        harness.writer.write([make_entry(offset) for offset in range(20)])
    await run_loop_turn()
    harness.log.commit()
    await asyncio.gather(*given)
    later = harness.writer.write([make_entry(offset) for offset in range(20)])
    await run_loop_turn()
    harness.log.commit()
    await later


async def test_a_refused_append_is_forgotten_before_any_later_decision(harness: WriterHarness) -> None:
    harness.log.refusal = Overloaded("full")
    first = harness.writer.write([make_entry(5)])
    seen: list[OffsetRecord | None] = []
    asyncio.get_running_loop().call_soon(lambda: seen.append(harness.folded.latest_offset(offset_key())))
    await run_loop_turn()
    with pytest.raises(Overloaded):
        await first
    assert seen == [None], "a decision in the turn of the refusal would be based on it, and come into a later append"


async def test_callers_of_a_barrier_share_it(harness: WriterHarness) -> None:
    harness.writer.write([make_entry(5)])
    assert harness.writer.barrier() is harness.writer.barrier()
    await run_loop_turn()
    assert harness.writer.barrier() is harness.writer.barrier()


# the end of a coordinator


async def test_a_closed_writer_appends_nothing_more(harness: WriterHarness) -> None:
    in_flight = harness.writer.write([make_entry(5)])
    await run_loop_turn()
    given = harness.writer.write([make_entry(6, 1)])
    harness.writer.close()
    assert not harness.writer.leads()
    with pytest.raises(NotLeader):
        await given
    with pytest.raises(NotLeader):
        harness.writer.write([make_entry(7)])
    harness.log.commit()
    await in_flight
    await run_loop_turn()
    assert not harness.log.waiting
    assert harness.folded.latest_offsets("g") == {}, "its state is dropped"


async def test_unencodable_values_change_nothing(harness: WriterHarness) -> None:
    too_much = GroupEntry(InstanceKey("g", "i"), {"x": "y" * INSTANCE_BYTES_MAX})
    with pytest.raises(InvalidArgument):
        harness.writer.write([make_entry(1), too_much])
    await run_loop_turn()
    assert not harness.log.waiting
    assert harness.folded.latest_offset(offset_key()) is None


def make_record(key: OffsetKey | GroupKey | InstanceKey, value: Any) -> NewRecord:
    return NewRecord(None if value is None else encode_value(value), encode_key(key))


async def test_the_last_record_of_a_key_counts(harness: WriterHarness) -> None:
    harness.log.append_by_others(
        *(make_record(offset_key(), OffsetRecord(Offset(number), -1, "", NOW_MS)) for number in (6, 3))
    )
    harness.log.append_by_others(make_record(InstanceKey("g", "i"), {"x": 1}), make_record(InstanceKey("g", "j"), {}))
    harness.log.append_by_others(
        make_record(offset_key(1), OffsetRecord(Offset(4), -1, "", NOW_MS)), make_record(offset_key(1), None)
    )
    harness.log.append_by_others(make_record(InstanceKey("g", "j"), None))
    while harness.folded.next_offset < harness.log.high_watermark:
        harness.read_on()
    assert committed_offset(harness) == {0: 3}
    assert harness.folded.instances == {("g", "i"): {"x": 1}}
    assert harness.folded.names() == {"g"}


async def test_an_undecodable_batch_stops_reading_and_is_named(harness: WriterHarness) -> None:
    harness.log.append_by_others(make_record(offset_key(), OffsetRecord(Offset(3), -1, "", NOW_MS)))
    harness.read_on()
    harness.log._store(SMALL[0].batch)
    harness.log.append_by_others(make_record(offset_key(1), OffsetRecord(Offset(4), -1, "", NOW_MS)))
    for _ in range(2):
        with pytest.raises(FormatError, match="log: the records from offset 1 on cannot be decoded"):
            harness.read_on()
    assert committed_offset(harness) == {0: 3}


async def test_after_a_trim_the_state_is_read_from_the_new_start(harness: WriterHarness) -> None:
    harness.log.append_by_others(make_record(offset_key(), OffsetRecord(Offset(3), -1, "", NOW_MS)))
    harness.read_on()
    harness.log.append_by_others(make_record(offset_key(1), OffsetRecord(Offset(4), -1, "", NOW_MS)))
    harness.log.append_by_others(make_record(offset_key(2), OffsetRecord(Offset(5), -1, "", NOW_MS)))
    harness.log.log_start_offset = Offset(2)
    harness.read_on()
    assert committed_offset(harness) == {2: 5}
