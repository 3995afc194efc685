"""Appending to the log of a coordinator: one append a turn, in order, in one term; what is on its way decides."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from raftlog.errors import FormatError, InvalidArgument, NotLeader, OutcomeUnknown, Overloaded
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


def key(partition: int = 0, group: str = "g") -> OffsetKey:
    return OffsetKey(group, TOPIC, partition)


def entry(offset: int, partition: int = 0) -> GroupEntry:
    return GroupEntry(key(partition), OffsetRecord(Offset(offset), -1, "", NOW_MS))


class Log:
    """Stands in for a replica and its group: what is appended waits for the test to commit or refuse it."""

    def __init__(self) -> None:
        self.name = "log"
        self.is_leader = True
        self.group = self
        self.core = SimpleNamespace(term=Term(3), leader=None)
        self.unreadable: dict[str, str] = {}
        self.is_closed = False
        self.log_start_offset = Offset(0)
        self.batches: list[bytes] = []
        self.waiting: list[tuple[asyncio.Future[ReplicaAppended], list[bytes]]] = []

    def append(self, batches: list[bytearray], acks: int) -> "asyncio.Future[ReplicaAppended]":
        assert acks == -1
        future: asyncio.Future[ReplicaAppended] = asyncio.get_running_loop().create_future()
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

    def by_others(self, *records: NewRecord) -> None:
        self._store(bytes(build_batch(list(records))))

    def _store(self, batch: bytes) -> None:
        stamped = bytearray(batch)
        stamped[0:8] = self.high_watermark.to_bytes(8)
        self.batches.append(bytes(stamped))

    def read(self, offset: int, max_bytes: int) -> list[bytes]:
        return [batch for batch in self.batches if read_header(batch).next_offset > offset]


class Desk:
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
async def desk() -> Desk:
    return Desk()


async def turn() -> None:
    await asyncio.sleep(0)
    await asyncio.sleep(0)


def committed(desk: Desk) -> dict[int, int]:
    return {place[1]: int(record.offset) for place, record in desk.folded.offsets.get("g", {}).items()}


async def test_records_of_one_turn_are_one_append_in_order(desk: Desk) -> None:
    done = [desk.writer.write([entry(5)]), desk.writer.write([entry(2), entry(9, 1)])]
    assert not desk.log.waiting
    await turn()
    ((_, batches),) = desk.log.waiting
    assert [record.offset for batch in batches for record in read_records(batch)] == [0, 1, 2]
    assert committed(desk) == {}
    desk.log.commit()
    await asyncio.gather(*done)
    assert committed(desk) == {0: 2, 1: 9}
    assert desk.folded.next_offset == 3


async def test_moves_in_progress_are_known_to_the_planner_until_they_end(desk: Desk) -> None:
    first = desk.writer.write([entry(5)])
    await turn()
    second = desk.writer.write([entry(8)])
    await turn()
    latest = desk.folded.latest_offset(key())
    assert latest is not None
    assert latest.offset == 8
    (_, _), (refused, _) = desk.log.waiting
    refused.set_exception(NotLeader("gone"))
    with pytest.raises(NotLeader):
        await second
    latest = desk.folded.latest_offset(key())
    assert latest is not None
    assert latest.offset == 5
    desk.log.commit()
    await first
    assert committed(desk) == {0: 5}
    assert desk.folded.latest_offsets("g").keys() == {key()}


async def test_in_another_term_nothing_is_appended(desk: Desk) -> None:
    given = desk.writer.write([entry(5)])
    desk.log.core.term = Term(4)  # deposed and elected again, before any member noticed
    await turn()
    assert not desk.log.waiting
    assert given.done()
    with pytest.raises(NotLeader):
        await given
    with pytest.raises(NotLeader):
        desk.writer.write([entry(6)])
    assert desk.folded.latest_offset(key()) is None


async def test_appends_of_others_are_read(desk: Desk) -> None:
    done = desk.writer.write([entry(5)])
    await turn()
    desk.log.by_others(keyed(key(3), OffsetRecord(Offset(4), -1, "", NOW_MS)))
    desk.log.commit()
    await done
    assert committed(desk) == {0: 5, 3: 4}


async def test_records_read_already_are_not_duplicated(desk: Desk) -> None:
    done = desk.writer.write([entry(5)])
    await turn()
    desk.log.commit()
    desk.read_on()  # before the writer hears of it
    await done
    assert committed(desk) == {0: 5}
    assert desk.folded.next_offset == 1


async def test_a_barrier_waits_for_what_was_given_before(desk: Desk) -> None:
    assert desk.writer.barrier() is None
    desk.writer.write([entry(5)])
    unflushed = desk.writer.barrier()
    await turn()
    flying = desk.writer.barrier()
    assert unflushed is not None
    assert flying is not None
    assert not unflushed.done()
    desk.log.commit()
    await asyncio.gather(unflushed, flying)
    assert desk.writer.barrier() is None
    lost = desk.writer.write([entry(6)])
    await turn()
    barrier = desk.writer.barrier()
    desk.log.waiting.pop()[0].set_exception(OutcomeUnknown("nobody knows"))
    for each in (lost, barrier):
        assert each is not None
        with pytest.raises(OutcomeUnknown):
            await each


async def test_nothing_waits_without_bound(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "PENDING_BYTES_MAX", 1_000)
    given = [desk.writer.write([entry(offset)]) for offset in range(5)]
    with pytest.raises(Overloaded):
        desk.writer.write([entry(offset) for offset in range(20)])
    await turn()
    desk.log.commit()
    await asyncio.gather(*given)
    later = desk.writer.write([entry(offset) for offset in range(20)])
    await turn()
    desk.log.commit()
    await later


async def test_unencodable_values_leave_nothing_behind(desk: Desk) -> None:
    too_much = GroupEntry(InstanceKey("g", "i"), {"x": "y" * INSTANCE_BYTES_MAX})
    with pytest.raises(InvalidArgument):
        desk.writer.write([entry(1), too_much])
    await turn()
    assert not desk.log.waiting
    assert desk.folded.latest_offset(key()) is None


def keyed(key: OffsetKey | GroupKey | InstanceKey, value: Any) -> NewRecord:
    return NewRecord(None if value is None else encode_value(value), encode_key(key))


async def test_the_last_record_of_a_key_counts(desk: Desk) -> None:
    desk.log.by_others(*(keyed(key(), OffsetRecord(Offset(number), -1, "", NOW_MS)) for number in (6, 3)))
    desk.log.by_others(keyed(InstanceKey("g", "i"), {"x": 1}), keyed(InstanceKey("g", "j"), {}))
    desk.log.by_others(keyed(key(1), OffsetRecord(Offset(4), -1, "", NOW_MS)), keyed(key(1), None))
    desk.log.by_others(keyed(InstanceKey("g", "j"), None))
    while desk.folded.next_offset < desk.log.high_watermark:
        desk.read_on()
    assert committed(desk) == {0: 3}
    assert desk.folded.instances == {("g", "i"): {"x": 1}}
    assert desk.folded.names() == {"g"}


async def test_an_undecodable_batch_stops_the_fold_by_its_name_and_nothing_is_skipped(desk: Desk) -> None:
    desk.log.by_others(keyed(key(), OffsetRecord(Offset(3), -1, "", NOW_MS)))
    desk.read_on()
    desk.log._store(SMALL[0].batch)
    desk.log.by_others(keyed(key(1), OffsetRecord(Offset(4), -1, "", NOW_MS)))
    for _ in range(2):
        with pytest.raises(FormatError, match="log: the records from offset 1 on cannot be decoded"):
            desk.read_on()
    assert committed(desk) == {0: 3}


async def test_behind_a_trim_the_fold_begins_anew(desk: Desk) -> None:
    desk.log.by_others(keyed(key(), OffsetRecord(Offset(3), -1, "", NOW_MS)))
    desk.read_on()
    desk.log.by_others(keyed(key(1), OffsetRecord(Offset(4), -1, "", NOW_MS)))
    desk.log.by_others(keyed(key(2), OffsetRecord(Offset(5), -1, "", NOW_MS)))
    desk.log.log_start_offset = Offset(2)
    desk.read_on()
    assert committed(desk) == {2: 5}
