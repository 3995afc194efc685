"""A crash at every write, sync and unlink of a journal, opening and recovery included."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random

import pytest

from jepsen.simulation.disk.simulated_disk import SimulatedDisk, SimulatedFile
from raftlog.runtime.journal.fold import Fold
from raftlog.runtime.journal.journal import Journal
from raftlog.runtime.journal.recovery import read_journal
from tests.runtime.journal_twin import DISK, GROUPS, PATH, SMALL, Twin
from tests.runtime.opened_journal import ONE, append_one, create_journal, reopen_after_power_loss


class PowerCut(BaseException):
    """Simulated end of the process under test."""


class ProcessSequence:
    """Successive processes on one disk; `durable` is the last reported durable sequence."""

    def __init__(self, seed: int) -> None:
        self.disk = SimulatedDisk(Random(seed))
        self.twin = Twin(Random(seed))
        self.durable = 0
        self.journal: Journal | None = None

    def note(self, sequence: int) -> None:
        self.durable = sequence

    def open(self) -> Fold:
        """Recover the journal and check the result against the twin."""
        journal, fold = Journal.open(
            self.disk, PATH, DISK, SMALL, create=self.durable == 0, synced_at_least=self.durable
        )
        self.twin.check(fold, self.durable)
        self.twin.continue_from(fold)
        self.journal, self.durable = journal, journal.durable_sequence
        journal.on_durable = self.note
        return fold

    def work(self) -> None:
        """Run enough operations for two checkpoints, recycled files, a late id, and a frame across files."""
        journal, twin = self.journal, self.twin
        assert journal is not None
        for turn in range(24):
            group = GROUPS[turn % 2]
            twin.append(journal, group, [3000, 5000])
            journal.flush()
            twin.vote(journal, GROUPS[2])
            if turn % 5 == 1:
                twin.append_large(group, 2)
                twin.append(journal, group, [10])
                twin.begin_checkpoint(journal)
            if turn % 5 == 3:
                twin.sync_segment(journal, GROUPS[1])
                twin.cut(journal, group, max(1, twin.replicas[group].last - 1))
                twin.complete_checkpoint(journal)
            self.disk.complete_next()
        journal.flush()
        self.disk.complete_all()


@contextmanager
def cut_before(step: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], int]]:
    """Cut the power before the disk step of that number; yield a function that returns the count of steps."""
    steps = 0

    def count_steps(real: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **named: object) -> object:
            nonlocal steps
            if steps == step:
                raise PowerCut
            steps += 1
            return real(*arguments, **named)

        return call

    with monkeypatch.context() as patch:
        for owner, name in (
            (SimulatedFile, "write"),
            (SimulatedDisk, "sync"),
            (SimulatedDisk, "submit_sync"),
            (SimulatedDisk, "complete_next"),
            (SimulatedDisk, "unlink"),
            (SimulatedDisk, "open"),
        ):
            patch.setattr(owner, name, count_steps(getattr(owner, name)))
        yield lambda: steps


def run_until(step: int, life: ProcessSequence, monkeypatch: pytest.MonkeyPatch) -> int:
    with cut_before(step, monkeypatch) as steps:
        try:
            life.open()
            life.work()
        except PowerCut:
            pass
        return steps()


def test_a_crash_at_any_step_loses_nothing_durable(monkeypatch: pytest.MonkeyPatch) -> None:
    """No durable data is lost or reported as damaged, and the journal continues."""
    total = run_until(-1, ProcessSequence(0), monkeypatch)
    assert total > 80
    for step in range(total):
        life = ProcessSequence(step)
        run_until(step, life, monkeypatch)
        life.disk.power_loss()
        life.open()
        assert life.journal is not None
        life.work()
        life.disk.power_loss()
        life.open()


def test_a_crash_at_any_step_of_a_recovery_loses_nothing_durable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recovery after a torn write can itself be interrupted repeatedly at any step."""
    for seed in range(12):
        step = 0
        while True:
            life = ProcessSequence(seed)
            life.open()
            life.work()
            journal = life.journal
            assert journal is not None
            life.twin.append(journal, GROUPS[0], [9000, 9000])
            journal.flush()
            life.disk.power_loss()
            survived = read_journal(life.disk, PATH, DISK)
            life.twin.check(survived, life.durable)
            life.twin.continue_from(survived)
            with cut_before(step, monkeypatch):
                try:
                    life.open()
                    break
                except PowerCut:
                    life.disk.power_loss()
            life.open()
            life.work()
            step += 1
        assert step > 5


def test_the_same_seed_writes_the_same_bytes() -> None:
    snapshots = []
    for _ in range(2):
        life = ProcessSequence(5)
        life.open()
        life.work()
        life.disk.power_loss()
        life.open()
        snapshots.append(life.disk.snapshot())
    assert snapshots[0] == snapshots[1]


def test_a_burst_of_appends_into_new_files_survives() -> None:
    """Appends faster than the preparation of files create some themselves, with a sync of the new name."""
    for seed in range(20):
        opened = create_journal(seed=seed)
        disk, journal, _ = opened
        for index in range(1, 601):
            append_one(journal, index)
        assert len(disk.list_directory(PATH)) > SMALL.spare_files_max + 1
        journal.flush()
        disk.complete_all()
        assert journal.is_idle
        _, fold = reopen_after_power_loss(disk)
        assert fold.groups[ONE].last_index == 600, f"seed {seed}"
