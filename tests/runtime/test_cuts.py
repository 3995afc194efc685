"""Cuts of entries in flight to the disk: large appends with a slow segment sync, and unfinished frames.

A follower alone, which gets its log from leaders of later and later terms."""

import errno
from collections.abc import Sequence

import pytest

from raftlog.raft import Entry, EntryId, EntryKind
from raftlog.raft.messages import AppendRequest
from raftlog.records import NewRecord, build_batch, stamp
from raftlog.runtime.process.driver import Driver
from raftlog.runtime.replica.partition_replica import PartitionReplica
from raftlog.runtime.transport import Envelope
from raftlog.types import Index, NodeId, Offset, Term
from tests.runtime.drivers import GROUP, SMALL, World, is_of_journal, is_of_segments

FOLLOWER = 3
LARGE = SMALL.large_append_bytes // 2
SMALL_SIZE = 100


class IsolatedFollower:
    """Replica 3, isolated from the others, that receives appends in their names."""

    def __init__(self, world: World) -> None:
        self.world = world
        leader = world.leader()
        world.fill(leader, 3)
        world.converge()
        for other in (1, 2):
            world.network.cut(world.nodes[FOLLOWER - 1], world.nodes[other - 1])
            world.network.cut(world.nodes[other - 1], world.nodes[FOLLOWER - 1])
        world.run(3)  # a checkpoint, so that nothing of what follows is in the journal twice
        self.disk = world.disks[FOLLOWER - 1]
        self.first = self.group.core.last_id.index + 1
        self.offsets = {self.first: self.group.log.next_offset}

    @property
    def driver(self) -> Driver:
        return self.world.drivers[FOLLOWER]

    @property
    def group(self) -> PartitionReplica:
        return self.world.group(FOLLOWER)

    def append(self, leader: int, term: int, first: int, sizes: Sequence[int]) -> None:
        """Send entries of one record each in the name of the term's leader, from index `first` on."""
        world, entries = self.world, []
        previous = EntryId(Index(first - 1), self.group.log.term_at(Index(first - 1)))
        for index, size in enumerate(sizes, first):
            batch = build_batch([NewRecord(b"%d %d " % (term, index) + b"x" * size, None, 1)])
            offset = Offset(self.offsets[self.first] + index - self.first)
            stamp(batch, offset, Term(term))
            entries.append(Entry(Index(index), Term(term), EntryKind.DATA, len(batch), bytes(batch)))
        me, sender = world.ids[FOLLOWER - 1], world.ids[leader - 1]
        request = AppendRequest(sender, me, Term(term), 1, previous, tuple(entries), self.group.core.committed_index)
        refused = self.driver.messages_refused
        world.run_at(FOLLOWER, lambda: self.driver.receive(NodeId(leader), [Envelope(GROUP.bytes, request)]))
        assert self.driver.messages_refused == refused
        world.run(0.001)

    def terms(self) -> list[int]:
        """Return the terms of the entries from the first sent one on."""
        log = self.group.log
        return [log.term_at(Index(index)) for index in range(self.first, log.last_index + 1)]

    def restart(self) -> None:
        self.world.crash(FOLLOWER, power=True)
        self.disk.release()
        self.world.start(FOLLOWER)


@pytest.mark.parametrize("is_syncing", [True, False])
@pytest.mark.parametrize("kept", [0, 1, 2])
@pytest.mark.parametrize("following", [SMALL_SIZE, 3 * LARGE])
def test_a_cut_is_correct_during_a_slow_segment_sync(is_syncing: bool, kept: int, following: int) -> None:
    with World() as world:
        follower = IsolatedFollower(world)
        first, term = follower.first, follower.group.core.term
        follower.disk.hold(is_of_segments)
        follower.append(1, term + 1, first, [LARGE] * 3)
        if is_syncing:
            world.run_until(lambda: follower.driver.persister._larges.is_any_syncing)
        follower.append(2, term + 2, first + kept, [following])
        wanted = [term + 1] * kept + [term + 2]
        assert follower.terms() == wanted
        world.run(0.01)
        follower.disk.release()
        world.run_until(lambda: follower.group.core.durable_index == first + kept)
        assert follower.driver.persister.is_idle
        for _ in range(2):
            follower.restart()
            assert follower.terms() == wanted
            assert follower.group.damage is None
        assert not world.failures


@pytest.mark.parametrize("deeper", [False, True])
@pytest.mark.parametrize("failing", ["size", "log", "index"])
def test_a_cut_without_free_descriptors_is_retried(monkeypatch: pytest.MonkeyPatch, failing: str, deeper: bool) -> None:
    with World() as world:
        follower = IsolatedFollower(world)
        first, term = follower.first, follower.group.core.term
        follower.append(1, term + 1, first, [SMALL_SIZE] * 4)
        world.run(3)  # they are in the files
        files, refused = follower.group.log.segments.active.files, []

        def refuse(*_: object) -> None:
            refused.append(failing)
            raise OSError(errno.EMFILE, "Too many open files")

        file, method = {
            "size": (files.index, "size"),
            "log": (files.log, "truncate"),
            "index": (files.index, "truncate"),
        }[failing]
        monkeypatch.setattr(file, method, refuse)
        follower.append(2, term + 2, first + 2, [SMALL_SIZE])
        world.run_until(lambda: len(refused) > 1)
        if deeper:
            follower.append(1, term + 3, first + 1, [SMALL_SIZE])
            world.run_until(lambda: len(refused) > 3)
        wanted = [term + 1, term + 3] if deeper else [term + 1] * 2 + [term + 2]
        assert follower.terms() == wanted
        assert follower.group.log.is_cut_waiting
        assert not world.failures
        monkeypatch.undo()
        world.run_until(lambda: not follower.group.log.is_cut_waiting)
        world.run(3)
        for _ in range(2):
            assert follower.terms() == wanted
            assert follower.group.damage is None
            follower.restart()
        assert not world.failures


@pytest.mark.parametrize("seed", range(5))
def test_a_cut_reaches_the_files_only_with_its_own_frame(seed: int) -> None:
    """A deposed leader has a frame in flight, and the cut is in the next one, when the power fails."""
    with World() as world:
        follower = IsolatedFollower(world)
        first, term = follower.first, follower.group.core.term
        follower.disk.random.seed(seed)
        follower.append(1, term + 1, first, [SMALL_SIZE] * 3)
        world.run(3)  # a checkpoint: the files have to hold these from now on
        follower.disk.hold(is_of_journal)
        follower.append(1, term + 1, first + 3, [SMALL_SIZE])
        follower.append(2, term + 2, first, [SMALL_SIZE] * 2)
        follower.disk.release()  # the frame under way; with it goes the next one, which is stuck
        follower.disk.hold(is_of_journal)
        durable = follower.driver.journal.durable_sequence
        world.run_until(lambda: follower.driver.journal.durable_sequence > durable)
        world.run(2 * SMALL.tick_ms / 1000)
        assert follower.group.log.is_cut_waiting
        follower.restart()
        assert follower.group.damage is None
        assert follower.terms() in ([term + 1] * 4, [term + 2] * 2)
        assert not world.failures
