"""The journal compared with its naive twin on a simulated disk: random operations, crashes, checkpoints, damage."""

from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from jepsen.simulation.disk.simulated_disk import SimulatedDisk
from raftlog.errors import JournalDamaged
from raftlog.runtime.journal.journal import Journal
from raftlog.runtime.journal.operations import Created, Install, Mark, Removed, Trim, VotingPosition
from raftlog.runtime.journal.recovery import read_journal
from raftlog.types import Index, Offset, Term
from tests.runtime.journal_twin import DISK, GROUPS, PATH, SMALL, Twin, end_of

groups = st.sampled_from(GROUPS)


class JournalAgainstTwin(RuleBasedStateMachine):
    """State machine over journal and twin; operations below `durable`, the last `on_durable`, must survive."""

    @initialize(seed=st.integers(0, 2**32))
    def begin(self, seed: int) -> None:
        self.disk = SimulatedDisk(Random(seed))
        self.twin = Twin(Random(seed))
        self.durable = 0
        self.journal, fold = self.open(create=True)
        assert fold.end == 1

    def open(self, *, create: bool = False):
        journal, fold = Journal.open(self.disk, PATH, DISK, SMALL, create=create, synced_at_least=self.durable)
        journal.on_durable = self.note_durable
        return journal, fold

    def note_durable(self, sequence: int) -> None:
        assert self.durable < sequence == self.journal.durable_sequence
        self.durable = sequence

    @rule(group=groups, sizes=st.lists(st.integers(0, 9000), min_size=1, max_size=3))
    def append(self, group: bytes, sizes: list[int]) -> None:
        self.twin.append(self.journal, group, sizes)

    @rule(group=groups, count=st.integers(1, 3))
    def append_large(self, group: bytes, count: int) -> None:
        self.twin.append_large(group, count)

    @rule(group=groups)
    def sync_segment(self, group: bytes) -> None:
        self.twin.sync_segment(self.journal, group)

    @rule(group=groups, back=st.integers(0, 5))
    def cut(self, group: bytes, back: int) -> None:
        self.twin.cut(self.journal, group, max(1, self.twin.replicas[group].last + 1 - back))

    @rule(group=groups)
    def vote(self, group: bytes) -> None:
        self.twin.vote(self.journal, group)

    @rule(group=groups)
    def hint(self, group: bytes) -> None:
        self.twin.hint(self.journal, group)

    @rule(group=groups, lost=st.sampled_from([(0, 0), (1, 1), (9, 3)]))
    def voting_position(self, group: bytes, lost: tuple[int, int]) -> None:
        self.twin.append_other(self.journal, VotingPosition(group, Index(lost[0]), Term(lost[1])))

    @rule(group=groups, kind=st.sampled_from(["trim", "install", "create", "remove"]), number=st.integers(1, 30))
    def other(self, group: bytes, kind: str, number: int) -> None:
        """Journal a trim or an installation, or create or remove the group."""
        replica = self.twin.replicas[group]
        end = end_of({number: b""})
        assert end is not None
        if kind == "trim":
            self.twin.append_other(self.journal, Trim(group, Offset(replica.log_start + number)))
        elif kind == "install":
            self.twin.append_other(self.journal, Install(group, Offset(number), end))
        elif kind == "create" and replica.mark is not Mark.CREATED:
            self.twin.append_other(self.journal, Created(group, Offset(0), end))
        elif kind == "remove":
            self.twin.append_other(self.journal, Removed(group))

    @rule()
    def flush(self) -> None:
        self.journal.flush()

    @rule(count=st.integers(1, 3))
    def complete_syncs(self, count: int) -> None:
        for _ in range(count):
            self.disk.complete_next()

    @rule()
    def settle(self) -> None:
        self.journal.flush()
        self.disk.complete_all()
        assert self.journal.is_idle
        assert not self.twin.history or self.durable >= self.twin.history[-1][0]

    @rule()
    def begin_checkpoint(self) -> None:
        self.twin.begin_checkpoint(self.journal)

    @rule()
    def complete_checkpoint(self) -> None:
        self.twin.complete_checkpoint(self.journal)

    @rule()
    def checkpoint_and_recycle(self) -> None:
        self.begin_checkpoint()
        self.complete_checkpoint()
        self.settle()
        assert self.journal.live_bytes <= SMALL.file_bytes

    @rule(kind=st.sampled_from(["power", "whole", "kill"]))
    def crash(self, kind: str) -> None:
        if kind == "kill":
            self.disk.process_crash()
        else:
            self.disk.power_loss(torn=kind == "power")
        self.recover()

    @rule()
    def close_and_reopen(self) -> None:
        self.settle()
        self.journal.close()
        self.recover()

    @rule(
        crash=st.sampled_from(["power", "kill", "close"]),
        kind=st.sampled_from(["flip", "zero", "stale", "misdirect_write", "unreadable", "lose"]),
        data=st.data(),
    )
    def damage(self, crash: str, kind: str, data: st.DataObject) -> None:
        """Damage a block; it must be reported, or no durable operation may be missing."""
        if crash == "close":
            self.settle()
            self.journal.close()
        elif crash == "kill":
            self.disk.process_crash()
        else:
            self.disk.power_loss()
        pages = [(path, page) for path, text in self.disk.snapshot().items() for page in range(len(text) // 4096)]
        path, page = data.draw(st.sampled_from(pages))
        if kind == "flip":
            self.disk.flip_bit(path, page * 4096 + data.draw(st.integers(0, 4095)), data.draw(st.integers(0, 7)))
        elif kind == "zero":
            self.disk.zero_page(path, page)
        elif kind == "stale":
            self.disk.restore_stale_page(path, page)
        elif kind == "misdirect_write":
            self.disk.misdirect_write(path, page, *data.draw(st.sampled_from(pages)))
        elif kind == "unreadable":
            self.disk.fail_read(path, page * 4096)
        else:
            self.disk.unlink(path)
        try:
            self.recover()
        except JournalDamaged:
            self.begin(data.draw(st.integers(0, 2**32)))

    def recover(self) -> None:
        offline = read_journal(self.disk, PATH, DISK)
        self.journal, fold = self.open()
        self.twin.check(fold, self.durable)
        assert self.journal.durable_sequence >= fold.end - 1
        assert offline.end == fold.end
        self.twin.continue_from(fold)
        self.durable = self.journal.durable_sequence


TestJournalAgainstTwin = JournalAgainstTwin.TestCase
TestJournalAgainstTwin.settings = settings(max_examples=60, stateful_step_count=50)
