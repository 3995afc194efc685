"""Single log compared with a list: random appends, flushes, crashes, cuts, trims, restarts on a simulated disk."""

from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from jepsen.simulation.disk.simulated_disk import SimulatedDisk
from raftlog.errors import NotAtBatchBorder, OffsetOutOfRange
from raftlog.records import NewRecord, build_batch, read_records
from raftlog.storage.lone_log import LoneLog
from raftlog.topic_config import LogConfig

PATH = "/data/log"
SMALL_SEGMENTS = LogConfig(segment_bytes=4096, segment_index_bytes=4096)


class LogAgainstList(RuleBasedStateMachine):
    """State machine with a list of values by offset; the first `durable` were answered and must stay."""

    @initialize(seed=st.integers(0, 2**32))
    def begin(self, seed: int) -> None:
        self.disk = SimulatedDisk(Random(seed))
        self.values: list[bytes] = []
        self.borders = {0}
        self.start = 0
        self.answered = 0
        self.now = 1_000
        self.log = self.open()

    def open(self) -> LoneLog:
        return LoneLog.open(self.disk, PATH, SMALL_SEGMENTS, clock=lambda: self.now)

    @rule(sizes=st.lists(st.integers(0, 3000), min_size=1, max_size=4), batches=st.integers(1, 3))
    def append(self, sizes: list[int], batches: int) -> None:
        """Append batches of records with values of these sizes."""
        self.now += 1
        for _ in range(batches):
            values = [len(self.values).to_bytes(8) + bytes(size) for size in sizes]
            appended = self.log.append([build_batch([NewRecord(value, timestamp=self.now) for value in values])])
            assert appended.base_offset == len(self.values)
            self.values += values
            self.borders.add(len(self.values))
            assert appended.next_offset == self.log.log_end_offset == len(self.values)

    @rule()
    def flush(self) -> None:
        self.log.flush()

    @rule(count=st.integers(1, 3))
    def complete_syncs(self, count: int) -> None:
        for _ in range(count):
            self.disk.complete_next()
        self.answered = max(self.answered, self.log.high_watermark)

    @rule(kind=st.sampled_from(["power", "kill"]))
    def crash(self, kind: str) -> None:
        """Crash the process or cut the power; check that the log ends with a whole batch after all answered ones."""
        if kind == "power":
            self.disk.power_loss()
        else:
            self.disk.process_crash()
        self.log = self.open()
        assert self.log.damage is None, self.log.damage
        end = self.log.log_end_offset
        assert self.answered <= end <= len(self.values), (self.answered, end, len(self.values))
        assert end in self.borders, "a crash keeps whole batches"
        self.discard_from(end)
        self.answered = end

    @rule()
    def close_and_reopen(self) -> None:
        self.disk.complete_all()
        self.log.close()
        self.log = self.open()
        assert self.log.log_end_offset == len(self.values)
        assert self.log.report.bytes_scanned == 0, "a clean stop leaves nothing to scan"
        self.answered = len(self.values)

    @precondition(lambda self: len(self.values) > self.start)
    @rule(data=st.data())
    def cut(self, data: st.DataObject) -> None:
        """Cut the log at an offset, which is refused within a batch."""
        offset = data.draw(st.integers(self.start, len(self.values)))
        if offset not in self.borders:
            with pytest.raises(NotAtBatchBorder) as refused:
                self.log.cut(offset)
            below, above = refused.value.below, refused.value.above
            assert {below, above} <= self.borders
            assert below < offset < above
            return
        self.log.cut(offset)
        assert self.log.log_end_offset == offset
        if offset < len(self.values):
            self.discard_from(offset)
            self.answered = offset

    @rule(data=st.data())
    def trim(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(0, self.log.high_watermark))
        self.log.trim(offset)
        self.start = max(self.start, offset)
        assert self.log.log_start_offset == self.start

    @rule(data=st.data())
    def refuse_out_of_range(self, data: st.DataObject) -> None:
        outside = data.draw(st.sampled_from([-1, self.start - 1, len(self.values) + 1]))
        with pytest.raises(OffsetOutOfRange) as refused:
            self.log.read(outside, 100)
        assert refused.value.first == self.start

    @rule(data=st.data())
    def find_by_time(self, data: st.DataObject) -> None:
        wanted = data.draw(st.integers(1_000, self.now + 1))
        found = self.log.offset_for_timestamp(wanted)
        expected = next(
            ((record.offset, record.timestamp) for record in self.read_all() if record.timestamp >= wanted),
            None,
        )
        assert found == expected

    def discard_from(self, offset: int) -> None:
        del self.values[offset:]
        self.borders = {border for border in self.borders if border <= offset}

    def read_all(self) -> list:
        records = []
        offset = self.start
        while batches := self.log.read(offset, 5000):
            for batch in batches:
                for record in read_records(batch):
                    if record.offset >= offset:
                        assert record.offset == offset
                        records.append(record)
                        offset += 1
        assert offset == self.log.high_watermark
        return records

    @invariant()
    def readers_see_exactly_what_is_durable(self) -> None:
        if not hasattr(self, "log"):
            return
        log = self.log
        assert self.start == log.log_start_offset <= log.high_watermark <= log.log_end_offset
        assert self.answered <= log.high_watermark
        assert [record.value for record in self.read_all()] == self.values[self.start : log.high_watermark]


TestLogAgainstList = LogAgainstList.TestCase
TestLogAgainstList.settings = settings(max_examples=60, stateful_step_count=40)
