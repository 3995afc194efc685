"""Raft group over a real journal and segments on a simulated disk, with a plain list of its expected entries.

The list is the state of the living process; a crash may take entries from its end that were not durable yet, and may
undo a cut that was not. Everything else that recovery returns must be there byte for byte."""

import uuid
from collections.abc import Sequence
from random import Random

from jepsen.simulation.disk.simulated_disk import SimulatedDisk
from raftlog.raft import Configuration, ReplicaId
from raftlog.records import ControlKind, NewRecord, build_batch, build_control_batch, read_header, read_records, stamp
from raftlog.runtime.journal.config import JournalConfig
from raftlog.runtime.journal.fold import Fold
from raftlog.runtime.journal.journal import Journal
from raftlog.runtime.journal.operations import Append, AppendIds, Created, Cut, GroupState, LogEnd, Mark, Trim
from raftlog.runtime.log.configuration_walk import FoundConfigurations, read_configurations
from raftlog.runtime.log.control_entries import build_configuration_batch, member_of
from raftlog.runtime.log.group_recovery import RecoveredGroup, recover_group
from raftlog.storage.changes import ChangedFiles
from raftlog.storage.roll import Roll, encode_roll
from raftlog.storage.segmented_log import SegmentedLog
from raftlog.types import Index, NodeId, Offset, Term

GROUP_ID = uuid.UUID(int=9)
GROUP = GROUP_ID.bytes
DISK_UUID = uuid.UUID(int=77)
PATH = "/data/t/0"
JOURNAL = "/data/.raftlog/journal"
SMALL = JournalConfig(
    file_bytes=24 * 4096,
    write_bytes_max=12 * 4096,
    reserve_bytes=4 * 4096,
    pending_bytes_max=1 << 20,
    checkpoint_bytes=40 * 4096,
    spare_files_max=3,
)


class Entry:
    """Expected entry: its bytes, its configuration (if any), and its durability."""

    def __init__(self, term: int, batch: bytes, configuration: Configuration | None = None) -> None:
        self.term = term
        self.batch = batch
        self.configuration = configuration
        self.sequence: int | None = None
        """The journal's number after which it is durable."""


class GroupTwin:
    """Raft group and its expected entries; `entries[0]` is index 1, also after a trim."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.disk = SimulatedDisk(Random(seed))
        self.disk.make_directory(PATH)
        self.disk.make_directory(JOURNAL)
        self.disk.sync([], ["/", "/data", "/data/t", "/data/.raftlog"])
        self.entries: list[Entry] = []
        self.before_cut: list[Entry] = []
        """The list before a cut that is not known to be durable."""
        self.log_start = 0
        self.term = 1
        self.salt = 0
        self.begun: tuple[int, ChangedFiles] | None = None
        self.journal: Journal
        self.log: SegmentedLog
        self.fold: Fold
        self.recovered: RecoveredGroup
        self.is_created = False

    # living

    def open(self) -> None:
        """Recover from the disk, compare with the list, and continue from there."""
        self.begun = None
        self.journal, self.fold = Journal.open(self.disk, JOURNAL, DISK_UUID, SMALL, create=not self.is_created)
        if GROUP not in self.fold.groups:
            assert not self.is_created, "the created mark was durable"
            self.create()
            return
        self.is_created = True
        self.recover()

    def recover(self) -> None:
        folded = self.fold.groups[GROUP]
        self.recovered = recover_group(self.disk, PATH, folded, self.fold)
        self.log = self.recovered.log

    def create(self) -> None:
        self.entries = []
        for name in self.disk.list_directory(PATH):
            self.disk.unlink(f"{PATH}/{name}")
        self.log = SegmentedLog(self.disk, PATH, (), Offset(0))
        self.log.append_roll(self.new_roll(), Term(0))
        self.record_last(0)
        self.log.write()
        self.disk.sync(self.log.list_changes_since_checkpoint().files, [PATH])
        self.log.mark_durable(Index(1), publish=False)
        number = self.journal.append([Created(GROUP, Offset(0), self.end())])
        self.wait_until_durable(number)
        self.is_created = True
        self.entries[0].sequence = number

    def new_roll(self) -> Roll:
        index = len(self.entries) + 1
        known = self.configurations() or [Configuration(Index(1), (self.replica(0),))]
        current = known[-1]
        return Roll(
            GROUP_ID,
            index,
            self.entries[-1].term if self.entries else 0,
            self.log_start,
            -1,
            self.salt,
            current.index,
            tuple(map(member_of, current.voters)),
        )

    @staticmethod
    def replica(number: int) -> ReplicaId:
        return ReplicaId(NodeId(number), uuid.UUID(int=number))

    def configurations(self) -> list[Configuration]:
        return [entry.configuration for entry in self.entries if entry.configuration]

    def record_last(self, term: int, configuration: Configuration | None = None) -> None:
        """Write the newest entry of the log, and add it to the list."""
        self.log.write()
        [(row, batch)] = self.log.read_entries(self.log.last_index, self.log.last_index, 0)
        if row.index == 1:
            configuration = Configuration(Index(1), (self.replica(0),))
        assert (row.index, row.term) == (len(self.entries) + 1, term)
        self.entries.append(Entry(term, bytes(batch), configuration))

    def end(self) -> LogEnd:
        active = self.log.active
        return LogEnd(Offset(active.base_offset), active.row_bytes(active.rows - 1, 1))

    def wait_until_durable(self, number: int) -> None:
        self.journal.flush()
        while self.journal.durable_sequence < number:
            assert self.disk.complete_next(), "nothing is on its way"

    # appending

    def append_data(self, size: int) -> None:
        self.salt += 1
        value = self.salt.to_bytes(8) + bytes(size)
        count = self.random.randint(1, 3)
        records = [NewRecord(value, timestamp=self.random.randint(0, 1000)) for _ in range(count)]
        self._append(build_batch(records))

    def _append(self, batch: bytearray, configuration: Configuration | None = None) -> None:
        stamp(batch, self.log.next_offset, Term(self.term))
        self.log.append_stamped(bytes(batch), read_header(batch))
        self.record_last(self.term, configuration)

    def change_configuration(self) -> None:
        self.salt += 1
        configuration = Configuration(Index(len(self.entries) + 1), (self.replica(self.salt),))
        replaced = self.configurations()[-1].index
        self._append(build_configuration_batch(configuration, replaced, self.salt), configuration)

    def roll(self) -> bool:
        """Begin a segment; return whether the active one had data."""
        active = self.log.active
        if active.next_offset == active.base_offset:
            return False
        roll, offset = self.new_roll(), self.log.next_offset
        batch = build_control_batch(ControlKind.ROLL, encode_roll(roll), roll.created_ms, next_offset=offset)
        stamp(batch, offset, Term(self.term))
        self.log.begin_segment(bytes(batch), read_header(batch), roll, Term(self.term))
        self.record_last(self.term)
        return True

    def journal_small(self, first: int) -> None:
        """Journal all entries from index `first` on with their bytes."""
        added = self.entries[first - 1 :]
        if added:
            batches = [entry.batch for entry in added]
            number = self.journal.append([Append(GROUP, Index(first), Index(first + len(added) - 1), batches)])
            for entry in added:
                entry.sequence = number
            self.journal.flush()

    def sync_large(self, first: int) -> None:
        """Sync all entries from index `first` on in their segment, then journal their rows."""
        added = self.entries[first - 1 :]
        last = first + len(added) - 1
        changed = self.log.list_unsynced_files(Index(first), Index(last))

        def synced(error: OSError | None) -> None:
            assert error is None
            self.log.mark_synced(changed)
            if self.entries[first - 1 : last] == added:
                self.journal_ids(first, added)

        self.disk.submit_sync(changed.files, changed.directories, synced)

    def journal_ids(self, first: int, added: Sequence[Entry]) -> None:
        """Write the ids of entries that are already in the log's files to the journal."""
        rows = b""
        for index in range(first, first + len(added)):
            segment = self.log.segment_of_index(index)
            rows += segment.row_bytes(index - segment.base_index, 1)
        number = self.journal.append([AppendIds(GROUP, Index(first), rows)])
        for entry in added:
            entry.sequence = number
        self.journal.flush()

    # cutting, trimming

    def cut_to(self, index: int) -> None:
        self.before_cut, self.entries = self.entries, self.entries[:index]
        number = self.journal.append([Cut(GROUP, Index(index + 1))])
        self.wait_until_durable(number)
        self.log.cut_to_index(Index(index))
        self.before_cut = []

    def lowest_cut(self) -> int:
        """Return the lowest index that a cut may keep.

        Durable entries may be committed; at least the entry before the log start stays."""
        below = sum(read_header(entry.batch).base_offset < self.log_start for entry in self.entries)
        return max(1, self.log.segments[0].base_index, below)

    def trim(self, offset: int) -> None:
        self.log.mark_durable(Index(self.durable_index), publish=False)
        self.log_start = max(self.log_start, offset)
        self.wait_until_durable(self.journal.append([Trim(GROUP, Offset(offset))]))
        self.log.log_start_offset = Offset(self.log_start)
        self.log.drop_below(self.log_start)

    # checkpoints

    def begin_checkpoint(self) -> None:
        """Begin a checkpoint of the group, unless one has begun."""
        if self.begun:
            return
        self.log.publish_rows(self.log.last_index)
        latest = max((entry.index for entry in self.configurations()), default=0)
        end = self.end()
        state = GroupState(GROUP, Mark.CREATED, Term(0), None, Offset(self.log_start), end, Index(0), Index(latest))
        number = self.journal.begin_checkpoint([state])
        self.journal.flush()
        changed = self.log.list_changes_since_checkpoint()
        self.begun = number, changed
        self.disk.submit_sync(changed.files, changed.directories, lambda error: self.files_synced(number, changed))

    def files_synced(self, number: int, changed: ChangedFiles) -> None:
        self.log.mark_synced(changed)
        self.journal.complete_checkpoint(number)  # type: ignore[arg-type]
        self.begun = None

    def fold_end(self) -> int:
        """Return the end position of the last checkpoint's last entry in its file."""
        end = self.fold.groups[GROUP].end if GROUP in self.fold.groups else None
        return end.id.end if end else len(self.entries[0].batch)

    # judging

    @property
    def durable_index(self) -> int:
        count = 0
        for entry in self.entries:
            if entry.sequence is None or entry.sequence > self.journal.durable_sequence:
                break
            count += 1
        return count

    def check(self, durable: int) -> None:
        """Compare the recovered state with the list, of which `durable` entries must be present."""
        recovered, log = self.recovered, self.log
        assert not recovered.damage, recovered.damage
        assert (recovered.lost_from, recovered.voting_position, recovered.unwritten) == (None, None, ())
        assert log.last_index == self.fold.groups[GROUP].last_index
        possible = [self.entries, *([self.before_cut] if self.before_cut else [])]
        found = self.read_all()
        first = log.segments[0].base_index
        assert any([entry.batch for entry in entries[first - 1 : log.last_index]] == found for entries in possible)
        assert durable <= log.last_index
        assert first == 1 or log.segments[0].base_offset <= self.log_start
        self.entries = next(
            entries for entries in possible if [entry.batch for entry in entries[first - 1 : log.last_index]] == found
        )[: log.last_index]
        self.before_cut = []
        for entry in self.entries:
            entry.sequence = 0
        self.check_files(found)
        self.check_times()
        self.check_configurations()

    def read_all(self) -> list[bytes]:
        log = self.log
        found: list[bytes] = []
        index = log.segments[0].base_index
        while index <= log.last_index:
            read = log.read_entries(Index(index), log.last_index, 10_000)
            for row, batch in read:
                assert row.index == index
                assert log.check_row_at(Index(index)) == row
                found.append(bytes(batch))
                index += 1
        return found

    def check_files(self, found: Sequence[bytes]) -> None:
        logs = [data for name, data in sorted(self.disk.snapshot().items()) if name.startswith(PATH + "/")]
        names = [name for name in self.disk.list_directory(PATH) if name.endswith(".log")]
        assert len(names) == len(self.log.segments)
        assert len(self.disk.list_directory(PATH)) == 3 * len(names) == len(logs)
        content = b"".join(self.disk.snapshot()[f"{PATH}/{name}"] for name in names)
        assert content == b"".join(found)

    def check_times(self) -> None:
        """Compare time lookup with a walk over all records."""
        log = self.log
        records = [
            record
            for batch in self.read_all()
            if not read_header(batch).is_control
            for record in read_records(batch)
            if record.offset >= log.log_start_offset
        ]
        for wanted in (0, 300, 700, 990, 1001):
            expected = next(
                ((record.offset, record.timestamp) for record in records if record.timestamp >= wanted), None
            )
            assert log.offset_for_timestamp(wanted) == expected

    def check_configurations(self) -> None:
        """Check the configurations that are read from the log for several committed indexes."""
        known = self.configurations()
        for committed in (0, len(self.entries) // 2, len(self.entries)):
            first = self.log.segments[0].base_index
            floor = max(committed, first - 1)
            lowest = max(entry.index for entry in known if entry.index <= max(floor, 1))
            expected = tuple(entry for entry in known if entry.index >= lowest)
            found = read_configurations(self.log, self.recovered.configuration_index, Index(committed))
            assert found == FoundConfigurations(expected, None), (committed, found, expected)


def run_operations(twin: GroupTwin, turns: int = 12) -> None:
    """Run all kinds of operations: a cut across two rolls, trims, checkpoints, large and small appends."""
    twin.open()
    for turn in range(turns):
        first = len(twin.entries) + 1
        if turn % 3 != 1:
            twin.roll()
        for size in (10, 3000, 0)[: 1 + turn % 3]:
            twin.append_data(size)
        if turn % 4 == 2:
            twin.append_data(9000)
            twin.sync_large(first)
        else:
            twin.journal_small(first)
        if turn % 5 == 3:
            twin.change_configuration()
            twin.journal_small(len(twin.entries))
        if turn % 4 == 1:
            twin.begin_checkpoint()
        if turn % 6 == 4:
            twin.cut_to(max(twin.lowest_cut(), len(twin.entries) - 5))
            twin.term += 1
        if turn % 5 == 4:
            twin.trim(twin.log.offset_after(twin.durable_index))
        twin.disk.complete_next()
    twin.journal.flush()
