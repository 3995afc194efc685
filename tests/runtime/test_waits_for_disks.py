"""Actions that must wait for a sync, and must not follow a failed one, on drivers whose disks delay syncs."""

from collections.abc import Sequence
from types import SimpleNamespace

import pytest

from raftlog.errors import OutcomeUnknown
from raftlog.raft import RaftCore
from raftlog.runtime.log.replica_directory import installing_path
from raftlog.runtime.process import checkpoints
from raftlog.runtime.transfer import replacement
from raftlog.runtime.transfer.installation import Installation
from raftlog.runtime.transport import Envelope
from raftlog.types import NodeId
from tests.runtime.drivers import GROUP, SMALL, SimulatedWire, World, is_of_journal, is_of_segments
from tests.runtime.test_adversity import other_numbers


def begin_checkpoint(world: World, number: int) -> None:
    made = world.drivers[number].persister.checkpoints
    made.has_new_operations, made._last_at = True, 0.0
    world.run_at(number, lambda: made.maybe_begin(1e9))


# the journal


def test_an_append_waits_only_for_its_own_frame() -> None:
    with World(1) as world:
        world.leader()
        disk, group = world.disks[0], world.group(1)
        disk.hold(is_of_journal)
        first = world.propose(1, b"first")
        world.run(0.01)
        second = world.propose(1, b"second")
        world.run(0.01)
        disk.release()
        disk.hold(is_of_journal)
        world.run(0.05)
        assert first.done()
        assert not second.done()
        assert group.core.durable_index < group.log.last_index
        disk.release()
        world.run_until(second.done)


def test_nothing_is_sent_while_a_vote_waits_for_its_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    with World() as world:
        leader = world.leader()
        world.fill(leader, 2)
        world.converge()
        _, voter = other_numbers(leader)
        sent: list[Envelope] = []
        send = SimulatedWire.send

        def noted(wire: SimulatedWire, node: NodeId, envelopes: Sequence[Envelope]) -> None:
            if wire._process.node is world.nodes[voter - 1]:
                sent.extend(envelopes)
            send(wire, node, envelopes)

        monkeypatch.setattr(SimulatedWire, "send", noted)
        term = world.group(voter).core.term
        world.disks[voter - 1].hold(is_of_journal)
        world.crash(leader)
        world.run_until(lambda: world.group(voter).core.term > term)
        world.run(0.001)
        sent.clear()
        world.run(1)
        assert not sent
        world.disks[voter - 1].release()
        world.run_until(lambda: bool(sent))


# segments


def test_a_failed_sync_of_a_large_append_stops_the_process() -> None:
    with World(1) as world:
        world.leader()
        world.run(0.1)
        world.disks[0].hold(is_of_segments)
        future = world.propose(1, b"x" * SMALL.large_append_bytes)
        world.run(0.05)
        world.disks[0].fail_sync()
        world.disks[0].release()
        world.run(0.05)
        assert isinstance(future.exception(), OutcomeUnknown)
        assert len(world.failures) == 1


def test_a_failed_sync_stops_the_process_and_fails_all_waiters() -> None:
    with World(1) as world:
        driver = world.drivers[1]
        world.disks[0].fail_sync()
        sync = driver.persister.sync
        [task] = world.run_at(1, lambda: driver.loop.create_task(sync((), [world.group(1).path])))
        world.run(0.05)
        assert isinstance(task.exception(), OSError)  # type: ignore[attr-defined]  # it is a task
        assert len(world.failures) == 1


def test_a_failed_sync_of_a_checkpoint_stops_the_process() -> None:
    with World(1) as world:
        world.leader()
        world.commit(1, b"x")
        world.run(0.1)
        made = world.drivers[1].persister.checkpoints
        completed = made.completed
        world.disks[0].hold(is_of_segments)
        begin_checkpoint(world, 1)
        world.run(0.05)
        world.disks[0].fail_sync()
        world.disks[0].release()
        world.run(0.05)
        assert made.completed == completed
        assert len(world.failures) == 1


@pytest.mark.parametrize("what", ["entries", "rows"])
def test_no_checkpoint_begins_before_entries_and_rows_are_in_their_files(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with World(1) as world:
        world.leader()
        world.run(0.1)
        group, made = world.group(1), world.drivers[1].persister.checkpoints
        if what == "entries":
            monkeypatch.setattr(group.log, "write", lambda: False)
        else:
            monkeypatch.setattr(group.log.segments, "publish_rows", lambda index: None)
        world.commit(1, b"x")
        begun = made.begun
        begin_checkpoint(world, 1)
        world.run(0.01)
        assert made.begun == begun
        monkeypatch.undo()
        begin_checkpoint(world, 1)
        world.run(0.01)
        assert made.begun == begun + 1


def test_no_checkpoint_begins_while_a_cut_waits_for_the_journal() -> None:
    """A checkpoint would have the cut entry as the last one, and recovery would not read the cut itself."""
    with World() as world:
        old = world.leader()
        world.fill(old, 3)
        world.converge()
        for other in other_numbers(old):
            world.network.cut(world.nodes[old - 1], world.nodes[other - 1])
            world.network.cut(world.nodes[other - 1], world.nodes[old - 1])
        for number in range(6):
            world.propose(old, b"lost %d" % number)
        world.run(0.05)
        world.drivers[old].persister.write_pending()
        world.run_until(lambda: world.leader() != old)
        new = world.leader()
        world.commit(new, b"instead")
        group, made = world.group(old), world.drivers[old].persister.checkpoints
        begun: list[int] = []

        def look() -> None:
            if group.log.is_cut_waiting and group.log.written_index < group.log.last_index:
                before = made.begun
                made.has_new_operations, made._last_at = True, 0.0
                made.maybe_begin(1e9)
                begun.append(made.begun - before)

        world.loop.after_step = look
        world.network.heal()
        world.converge()
        assert begun
        assert not any(begun)


def test_a_checkpoint_includes_a_trim_that_is_not_yet_in_the_journal() -> None:
    """Recovery does not read the part of the journal before the checkpoint's begin."""
    with World(1) as world:
        world.leader()
        world.fill(1, 5)
        group = world.group(1)
        world.disks[0].hold(is_of_journal)
        world.run_at(1, lambda: group.trim(3))
        world.run(0.01)
        assert (group.trim_to, group.log_start_offset) == (3, 0)
        assert checkpoints._state_of(group).log_start_offset == 3


def test_an_uncommitted_trim_is_not_applied_after_a_restart() -> None:
    with World() as world:
        leader = world.leader()
        world.fill(leader, 30)
        world.converge()
        for other in other_numbers(leader):
            world.network.cut(world.nodes[leader - 1], world.nodes[other - 1])
            world.network.cut(world.nodes[other - 1], world.nodes[leader - 1])
        world.run_at(leader, lambda: world.group(leader).propose_trim(20))
        world.run(0.05)
        world.crash(leader)
        world.start(leader)
        world.run(0.5)
        group = world.group(leader)
        assert group.log.last_index > group.applied_index
        assert (group.log_start_offset, group.committed_start_offset) == (0, 0)


# installations


def start_follower_behind_log_start(world: World) -> int:
    """Start a follower whose log ends before the leader's begins; return it."""
    leader = world.leader()
    follower = other_numbers(leader)[0]
    world.commit(leader, b"first")
    world.crash(follower)
    world.fill(leader, 60)
    group = world.group(leader)
    world.run_at(leader, lambda: group.trim(group.high_watermark))
    world.run_until(lambda: group.log.boundary.index > 10)
    world.start(follower)
    return follower


def test_a_fetched_log_is_installed_after_its_name_and_journal_entry_are_durable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with World() as world:
        follower = start_follower_behind_log_start(world)
        disk, journal = world.disks[follower - 1], world.drivers[follower].journal
        seen: list[tuple[bool, bool]] = []
        take = replacement.place_installed_log
        path = installing_path("/data", GROUP)

        def looked(*arguments: object) -> None:
            durable = disk.durable_paths()
            seen.append((any(name.startswith(f"{path}/") for name in durable), journal.is_idle))
            take(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(replacement, "place_installed_log", looked)
        world.converge()
        assert seen == [(True, True)]


def test_a_fetched_log_that_is_no_longer_needed_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    with World() as world:
        is_fetched: list[bool] = []
        wants = RaftCore.needs_install
        taken: list[object] = []

        def may(_: Installation) -> bool:
            is_fetched.append(True)
            return True

        monkeypatch.setattr(Installation, "_may_swap_directories", may)
        monkeypatch.setattr(RaftCore, "needs_install", lambda core, at: wants(core, at) and not is_fetched)
        monkeypatch.setattr(replacement, "place_installed_log", lambda *arguments: taken.append(arguments))
        start_follower_behind_log_start(world)
        world.run_until(lambda: bool(is_fetched))
        world.run(0.1)
        assert not taken
        assert not world.failures


@pytest.mark.parametrize(
    ("parts", "is_dirty", "is_cut_waiting", "is_under_way", "may"),
    [
        ((), False, False, False, True),
        ((1,), False, False, False, False),
        ((), True, False, False, False),
        ((), False, True, False, False),
        ((), False, False, True, False),
    ],
)
def test_a_fetched_log_is_installed_when_no_write_to_the_old_one_is_in_flight(
    parts: Sequence[int], is_dirty: bool, is_cut_waiting: bool, is_under_way: bool, may: bool
) -> None:
    made = Installation.__new__(Installation)
    made._group = SimpleNamespace(  # type: ignore[assignment]
        is_closed=False, parts=parts, is_dirty=is_dirty, log=SimpleNamespace(is_cut_waiting=is_cut_waiting)
    )
    made._port = SimpleNamespace(  # type: ignore[assignment]
        failure=None, persister=SimpleNamespace(checkpoints=SimpleNamespace(is_under_way=is_under_way))
    )
    assert made._may_swap_directories() is may
