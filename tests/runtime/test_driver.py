"""The driver persists, sends, applies and advances, over crashes, cuts, full disks and failed syncs.

Simulated time, network and disks (`drivers`); the drivers, logs and journals are the real ones.
"""

import pytest

from raftlog.errors import CorruptBatch, NotLeader, OutcomeUnknown, StorageFull, SyncFailed
from raftlog.raft import ConfigurationChange, Role
from raftlog.records import NewRecord, build_batch
from raftlog.runtime.replica.disk_room import DiskRoom
from raftlog.storage.rows import ROW_SIZE
from raftlog.types import Index
from tests.runtime.drivers import GROUP, SMALL, World, any_path, is_of_journal


def test_committed_entries_are_the_same_on_every_replica() -> None:
    with World() as world:
        leader = world.leader()
        committed = [world.commit(leader, b"value %d" % number) for number in range(50)]
        assert [each.base_offset for each in committed] == list(range(50))
        world.converge()
        expected = [b"value %d" % number for number in range(50)]
        assert all(world.values(number) == expected for number in (1, 2, 3))
        assert world.files(1) == world.files(2) == world.files(3)


def test_a_commit_takes_only_turns_with_work(monkeypatch: pytest.MonkeyPatch) -> None:
    with World() as world:
        leader = world.leader()
        world.fill(leader, 5)
        world.converge()
        driver, turns = world.drivers[leader], []
        turn = driver._turn
        monkeypatch.setattr(driver, "_turn", lambda: (turns.append(bool(driver._dirty)), turn()))
        world.commit(leader, b"value")
        world.run(0.01)
        assert turns == [True] * 4  # the proposal, the sync here, and the acknowledgement of each follower


def test_segments_roll_at_the_same_entry_everywhere() -> None:
    with World() as world:
        world.fill(world.leader(), 60)
        world.converge()
        assert len(world.files(1)) > 3
        assert world.files(1) == world.files(2) == world.files(3)


def test_all_data_survives_a_power_loss_of_all_nodes() -> None:
    with World() as world:
        world.fill(world.leader(), 40)
        expected = world.values(world.leader())
        for number in (1, 2, 3):
            world.crash(number, power=True)
        for number in (1, 2, 3):
            world.start(number)
        world.commit(world.leader(), b"afterwards")
        world.converge()
        assert all(world.values(number) == [*expected, b"afterwards"] for number in (1, 2, 3))
        assert world.files(1) == world.files(2) == world.files(3)


def test_a_large_append_is_synced_in_its_segment_and_survives() -> None:
    with World() as world:
        leader = world.leader()
        before = world.drivers[leader].journal.live_bytes
        values = [bytes([65 + number]) * 20_000 for number in range(10)]
        for value in values:
            world.commit(leader, value)
        assert world.drivers[leader].journal.live_bytes - before < 150_000  # blocks of 4 KiB, not the bytes
        for number in (1, 2, 3):
            world.crash(number, power=True)
            world.start(number)
        world.leader()
        world.converge()
        assert world.values(1) == world.values(2) == world.values(3) == values


def test_a_checkpoint_frees_journal_files() -> None:
    with World() as world:
        leader = world.leader()
        for _ in range(3):
            world.fill(leader, 30)
            world.run(3)
        assert world.drivers[leader].journal.live_bytes < 64 * 1024
        expected = world.values(leader)
        for number in (1, 2, 3):
            world.crash(number, power=True)
            world.start(number)
        world.leader()
        world.converge()
        assert world.values(2) == expected


def test_a_deposed_leader_loses_entries_that_no_other_replica_has() -> None:
    with World() as world:
        old = world.leader()
        world.fill(old, 5)
        world.converge()
        others = [number for number in (1, 2, 3) if number != old]
        for number in others:
            world.network.cut(world.nodes[old - 1], world.nodes[number - 1])
            world.network.cut(world.nodes[number - 1], world.nodes[old - 1])
        lost = [world.propose(old, b"lost %d" % number + bytes(500)) for number in range(20)]
        world.run_until(lambda: any(world.group(number).core.role is Role.LEADER for number in others))
        new = next(number for number in others if world.group(number).core.role is Role.LEADER)
        world.commit(new, b"kept")
        world.network.heal()
        world.converge()
        assert not lost[-1].done()  # nothing is committed in its place yet
        world.fill(new, 20)
        world.converge()
        assert all(isinstance(future.exception(), NotLeader) for future in lost)
        assert b"kept" in world.values(old)
        assert not any(value.startswith(b"lost") for value in world.values(old))
        assert world.files(1) == world.files(2) == world.files(3)


def test_a_cut_reaches_the_files_only_once_it_is_durable() -> None:
    with World() as world:
        old = world.leader()
        others = [number for number in (1, 2, 3) if number != old]
        for number in others:
            world.network.cut(world.nodes[old - 1], world.nodes[number - 1])
            world.network.cut(world.nodes[number - 1], world.nodes[old - 1])
        for number in range(20):
            world.propose(old, b"lost %d" % number + bytes(500))
        world.run_until(lambda: any(world.group(number).core.role is Role.LEADER for number in others))
        world.commit(next(n for n in others if world.group(n).core.role is Role.LEADER), b"kept")
        written = world.files(old)
        log = world.group(old).log
        seen: list[bool] = []

        def check_files() -> None:
            if log.is_cut_waiting:
                seen.append(world.files(old) == written)

        world.loop.after_step = check_files
        world.network.heal()
        world.converge()
        assert seen
        assert all(seen)
        assert world.files(old) != written


def test_a_follower_refuses_a_proposal_with_its_leader() -> None:
    with World() as world:
        leader = world.leader()
        world.run(1)
        follower = next(number for number in (1, 2, 3) if number != leader)
        error = world.propose(follower, b"value").exception()
        assert isinstance(error, NotLeader)
        assert error.leader == world.ids[leader - 1]


def test_a_follower_behind_the_log_start_gets_the_leaders_log() -> None:
    with World() as world:
        leader = world.leader()
        behind = next(number for number in (1, 2, 3) if number != leader)
        world.crash(behind)
        world.fill(leader, 80)
        for number in world.drivers:
            world.run_at(number, lambda number=number: world.group(number).trim(world.group(number).high_watermark - 5))
        world.run(1)
        assert world.group(leader).log.boundary.index > 50
        world.start(behind)
        world.run_until(lambda: world.group(behind).log.boundary.index > 50)
        world.converge()
        assert world.files(behind) == world.files(leader)
        world.crash(behind, power=True)
        world.start(behind)
        world.commit(world.leader(), b"afterwards")
        world.converge()
        assert world.files(behind) == world.files(leader)
        assert not world.failures


def test_a_damaged_replica_is_quarantined_until_its_repair() -> None:
    with World() as world:
        leader = world.leader()
        world.fill(leader, 40)
        world.run(5)
        hurt = next(number for number in (1, 2, 3) if number != leader)
        group = world.group(hurt)
        whole = world.files(hurt)
        path = f"{group.path}/{sorted(whole)[1]}"
        world.disks[hurt - 1].flip_bit(path, 700, 3)
        world.crash(hurt)
        world.start(hurt)
        world.run(1)
        with pytest.raises(CorruptBatch, match=f"{path}.*position"):
            world.values(hurt)
        assert world.group(hurt).core.status().is_quarantined
        assert not world.run_at(hurt, world.group(hurt).core.campaign)[0]
        world.commit(world.leader(), b"it still acknowledges")
        world.run_until(lambda: world.group(hurt).damage is None)
        world.converge()
        assert not world.group(hurt).core.status().is_quarantined
        assert world.files(hurt) == world.files(world.leader())


def test_a_damaged_configuration_entry_quarantines_until_it_is_repaired() -> None:
    """Without the entry the replica knows an older configuration, whose quorum may be another.

    Checkpoints of that time must not name the older one: a later start, after the repair, would take it."""
    with World(4, voters=3) as world:
        leader = world.leader()
        world.fill(leader, 1)
        world.run_at(4, lambda: world.drivers[4].join_group(GROUP))
        core = world.group(leader).core
        change = ConfigurationChange(tuple(world.ids), (), core.configuration.index)
        world.run_at(leader, lambda: world.group(leader).change_members(change))
        world.run_until(lambda: len(core.configuration.voters) == 4 and not core.configuration.is_joint)
        world.fill(leader, 1)
        world.run(5)
        hurt = next(number for number in (1, 2, 3) if number != leader)
        known = world.group(hurt).core.configuration
        segments = world.group(hurt).log.segments
        row = segments.row_at(known.index)
        path = segments.segment_of_index(known.index).files.log.path
        others = [number for number in (1, 2, 3, 4) if number != hurt]
        for number in (*others, hurt):
            world.crash(number)
        world.disks[hurt - 1].flip_bit(path, row.position + 80, 1)
        for _ in range(2):  # the second time, what the checkpoint names counts
            world.start(hurt)
            assert world.group(hurt).core.configuration != known
            assert world.group(hurt).core.status().is_quarantined
            world.run(5)
            world.crash(hurt)
        for number in (*others, hurt):
            world.start(number)
        world.run_until(lambda: world.group(hurt).damage is None)
        assert world.group(hurt).configuration_index == known.index, "a checkpoint before the next Ready names it"
        world.run(5)
        world.crash(hurt)
        world.start(hurt)
        assert world.group(hurt).core.configuration == known
        assert not world.group(hurt).core.status().is_quarantined


def test_a_repair_restores_a_configuration_whose_row_alone_is_damaged() -> None:
    """At the start the row cannot be repaired, because the entry before it is damaged with its row."""
    with World(4, voters=3) as world:
        leader = world.leader()
        world.fill(leader, 1)
        world.run_at(4, lambda: world.drivers[4].join_group(GROUP))
        core = world.group(leader).core
        change = ConfigurationChange(tuple(world.ids), (), core.configuration.index)
        world.run_at(leader, lambda: world.group(leader).change_members(change))
        world.run_until(lambda: len(core.configuration.voters) == 4 and not core.configuration.is_joint)
        world.fill(leader, 1)
        world.run(5)
        hurt = next(number for number in (1, 2, 3) if number != leader)
        known = world.group(hurt).core.configuration
        segments = world.group(hurt).log.segments
        segment, before = segments.segment_of_index(known.index), segments.row_at(Index(known.index - 1))
        number = segment.number_of(known.index)
        world.crash(hurt)
        disk, files = world.disks[hurt - 1], segment.files
        disk.flip_bit(files.log.path, before.end - 3, 1)
        disk.flip_bit(files.index.path, (number - 1) * ROW_SIZE + 3, 2)
        disk.flip_bit(files.index.path, number * ROW_SIZE + 41, 2)  # its checksum
        world.start(hurt)
        assert world.group(hurt).core.configuration != known
        assert 4 not in world.drivers[hurt]._peers._groups_shared
        world.run_until(lambda: world.group(hurt).damage is None)
        assert world.group(hurt).core.configuration == known
        assert 4 in world.drivers[hurt]._peers._groups_shared, "no heartbeats are exchanged with the restored member"


def test_a_damaged_configuration_of_a_large_append_quarantines_until_it_is_repaired() -> None:
    """The journal has only its row, so the replay cannot know that it is a configuration."""
    with World(4, voters=3) as world:
        leader = world.leader()
        world.fill(leader, 1)
        world.run_at(4, lambda: world.drivers[4].join_group(GROUP))
        world.run(5)
        world.fill(leader, 1)
        world.run(0.3)  # a checkpoint, and the next one comes in more than a second
        core = world.group(leader).core
        change = ConfigurationChange(tuple(world.ids[:3]), (world.ids[3],), core.configuration.index)

        def append_both() -> None:
            world.group(leader).propose([build_batch([NewRecord(bytes(20_000), None, 1000)])])
            world.group(leader).change_members(change)

        world.run_at(leader, append_both)
        hurt = next(number for number in (1, 2, 3) if number != leader)
        world.run_until(lambda: world.group(hurt).core.configuration.learners == change.learners, 1)
        world.run_until(lambda: world.group(hurt).applied_index == world.group(hurt).log.last_index, 1)
        known = world.group(hurt).core.configuration
        segments = world.group(hurt).log.segments
        row = segments.row_at(known.index)
        path = segments.segment_of_index(known.index).files.log.path
        others = [number for number in (1, 2, 3, 4) if number != hurt]
        for number in (*others, hurt):
            world.crash(number)
        world.disks[hurt - 1].flip_bit(path, row.position + 80, 1)
        for _ in range(2):  # the second time, what the checkpoint names counts
            world.start(hurt)
            assert world.group(hurt).core.configuration != known
            assert world.group(hurt).core.status().is_quarantined
            world.run(5)
            world.crash(hurt)
        for number in (*others, hurt):
            world.start(number)
        world.run_until(lambda: world.group(hurt).damage is None)
        assert world.group(hurt).core.configuration == known


def test_a_repair_does_not_restore_a_configuration_that_is_being_cut() -> None:
    """The files have the entry, and rolls with its configuration, until the cut is durable in the journal."""
    with World(6, voters=5) as world:
        old = world.leader()
        world.fill(old, 40)
        world.run_at(6, lambda: world.drivers[6].join_group(GROUP))
        world.run(5)
        hurt = next(number for number in range(1, 6) if number != old)
        rest = [number for number in range(1, 6) if number not in (old, hurt)]
        group = world.group(hurt)
        held = group.core.configuration
        world.unreachable = set(range(1, 7))
        world.disks[hurt - 1].flip_bit(f"{group.path}/{sorted(world.files(hurt))[1]}", 700, 3)
        with pytest.raises(CorruptBatch):
            world.values(hurt)
        for number in (old, hurt):
            for other in (*rest, 6):
                world.network.cut(world.nodes[number - 1], world.nodes[other - 1])
                world.network.cut(world.nodes[other - 1], world.nodes[number - 1])
        change = ConfigurationChange(held.voters, (world.ids[5],), held.index)
        deposed = world.group(old)
        world.run_at(old, lambda: deposed.change_members(change).add_done_callback(lambda lost: lost.exception()))
        segments_before = len(world.files(hurt))
        for number in range(14):
            world.propose(old, b"lost %d" % number + bytes(900))
            world.run(0.01)
        assert group.core.configuration.learners
        assert len(world.files(hurt)) > segments_before
        world.run_until(lambda: any(world.group(number).core.role is Role.LEADER for number in rest))
        world.network.heal()
        term = max(world.group(number).core.term for number in rest)
        while group.core.term < term or group.parts:
            world.run(0.0001)
        world.disks[hurt - 1].hold(is_of_journal)
        world.run_until(lambda: group.log.is_cut_waiting)
        world.unreachable.clear()
        for _ in range(300):
            world.run(0.01)
            assert group.core.configuration == held
        world.disks[hurt - 1].release()
        world.run_until(lambda: group.damage is None)
        assert group.core.configuration == held
        assert not group.core.status().is_quarantined


def test_a_leader_that_detects_damage_steps_down() -> None:
    with World() as world:
        leader = world.leader()
        behind = next(number for number in (1, 2, 3) if number != leader)
        world.crash(behind)
        world.fill(leader, 60)
        world.run(5)
        path = f"{world.group(leader).path}/{sorted(world.files(leader))[2]}"
        world.disks[leader - 1].flip_bit(path, 700, 3)
        group, led = world.group(leader), []

        def check_files() -> None:
            if group.damage is not None:
                led.append(group.core.role is Role.LEADER)

        world.loop.after_step = check_files
        world.start(behind)
        world.run_until(lambda: bool(led))
        world.run_until(lambda: group.damage is None)
        assert not any(led)
        world.commit(world.leader(), b"afterwards")
        world.converge()
        assert world.files(1) == world.files(2) == world.files(3)


def test_a_full_disk_refuses_appends_and_loses_nothing() -> None:
    with World() as world:
        leader = world.leader()
        world.fill(leader, 5)
        for disk in world.disks:
            disk.leave_free(3000)
        futures = [world.propose(leader, b"%d" % number + bytes(900)) for number in range(12)]
        world.run(3)
        refused = [future for future in futures if future.done() and isinstance(future.exception(), StorageFull)]
        assert refused
        answered = [future for future in futures if future.done() and future.exception() is None]
        assert world.group(leader).log.written_index < world.group(leader).core.committed_index
        assert len(world.values(leader)) == 5 + len(answered)  # those too that wait for room in the files
        for disk in world.disks:
            disk.capacity_bytes = None
        world.run_until(lambda: all(future.done() for future in futures))
        world.run_until(lambda: not any(world.group(number).is_disk_full for number in (1, 2, 3)))
        world.commit(world.leader(), b"afterwards")
        world.converge()
        taken = sum(1 for future in futures if future.exception() is None)
        assert len(world.values(1)) == 5 + taken + 1
        assert world.files(1) == world.files(2) == world.files(3)
        assert not world.failures


def test_a_failed_sync_stops_the_process_with_unknown_outcomes() -> None:
    with World() as world:
        leader = world.leader()
        world.fill(leader, 5)
        world.run(1)
        world.disks[leader - 1].fail_sync()
        future = world.propose(leader, b"unknown")
        world.run(1)
        assert [number for number, _ in world.failures] == [leader]
        assert isinstance(world.failures[0][1], SyncFailed)
        assert isinstance(future.exception(), OutcomeUnknown)
        world.crash(leader)
        world.start(leader)
        world.commit(world.leader(), b"afterwards")
        world.converge()


def test_a_new_member_catches_up_and_votes() -> None:
    with World(4, voters=3) as world:
        leader = world.leader()
        world.fill(leader, 30)
        world.run_at(4, lambda: world.drivers[4].join_group(GROUP))
        core = world.group(leader).core
        change = ConfigurationChange(tuple(world.ids), (), core.configuration.index)
        (future,) = world.run_at(leader, lambda: world.group(leader).change_members(change))
        world.run_until(future.done)  # type: ignore[attr-defined]
        world.run_until(lambda: len(core.configuration.voters) == 4 and not core.configuration.is_joint)
        world.converge()
        assert world.files(4) == world.files(leader)
        world.crash(4, power=True)
        world.start(4)
        world.commit(world.leader(), b"afterwards")
        world.converge()
        assert len(world.group(4).core.configuration.voters) == 4


@pytest.mark.parametrize("kept", ["index files", "nothing"])
def test_a_replica_that_lost_its_log_gets_its_configuration_back(kept: str) -> None:
    """The configuration is that of the first entry, which arrives like any other; then it can lead."""
    with World() as world:
        leader = world.leader()
        world.fill(leader, 3)
        world.converge()
        victim, other = (number for number in (1, 2, 3) if number != leader)
        configuration = world.group(leader).core.configuration
        path, disk = world.group(victim).path, world.disks[victim - 1]
        world.crash(victim)
        for name in list(disk.snapshot()):
            if name.startswith(f"{path}/") and (kept == "nothing" or name.endswith(".log")):
                disk.unlink(name)
        if kept == "nothing":
            disk.rename(path, "/taken-away")
        world.start(victim)
        world.converge()
        assert world.group(victim).core.configuration == configuration
        assert world.group(victim).damage is None
        world.crash(leader)
        world.commit(world.leader(), b"more")
        world.converge()
        if world.leader() == other:
            world.run_at(other, lambda: world.group(other).transfer_leadership(world.ids[victim - 1]))
        world.run_until(lambda: world.group(victim).core.role is Role.LEADER)


def test_a_removed_group_stays_removed_after_a_restart() -> None:
    with World() as world:
        leader = world.leader()
        world.fill(leader, 5)
        follower = next(number for number in (1, 2, 3) if number != leader)
        path = world.group(follower).path
        world.run_at(follower, lambda: world.drivers[follower].remove_group(GROUP.bytes))
        world.run(1)
        assert not world.disks[follower - 1].exists(path)
        world.crash(follower)
        world.start(follower)
        assert not world.drivers[follower].groups


@pytest.mark.parametrize("checkpoint_s", [0.1, 5.0])
def test_a_removed_and_readded_replica_elects_no_candidate_without_its_entries(checkpoint_s: float) -> None:
    with World(4, voters=3) as world:
        leader = world.leader()
        gone, behind = (number for number in (1, 2, 3) if number != leader)
        world.fill(leader, 3)
        world.crash(behind)
        core = world.group(leader).core
        world.run_at(4, lambda: world.drivers[4].join_group(GROUP))
        wanted = tuple(sorted(world.ids[number - 1] for number in (leader, behind, 4)))
        change = ConfigurationChange(wanted, (), core.configuration.index)
        world.run_at(leader, lambda: world.group(leader).change_members(change))
        world.run_until(lambda: core.configuration.voters == wanted and not core.configuration.is_joint)
        world.commit(leader, b"held by the new members")
        world.run_at(gone, lambda: world.drivers[gone].remove_group(GROUP.bytes))
        world.run(checkpoint_s)
        world.crash(gone)
        world.start(gone)
        world.run_at(gone, lambda: world.drivers[gone].join_group(GROUP))
        world.crash(leader)
        world.crash(4)
        world.start(behind)  # it uses the old configuration, of which it makes a majority with the removed one
        world.run(20)
        assert world.group(behind).core.role is not Role.LEADER
        world.start(4)
        world.commit(world.leader(), b"afterwards")
        assert world.values(world.leader())[-2:] == [b"held by the new members", b"afterwards"]


def test_a_read_index_on_a_follower_covers_acknowledged_entries() -> None:
    with World() as world:
        leader = world.leader()
        done = world.commit(leader, b"value")
        follower = next(number for number in (1, 2, 3) if number != leader)
        (future,) = world.run_at(follower, world.group(follower).read_index)
        world.run_until(future.done)  # type: ignore[attr-defined]
        assert future.result() >= done.last_index  # type: ignore[attr-defined]
        assert world.group(follower).high_watermark >= done.next_offset


def test_a_process_with_a_stalled_disk_transfers_its_leaderships() -> None:
    with World() as world:
        leader = world.leader()
        world.fill(leader, 3)
        disk = world.disks[leader - 1]
        disk.hold(any_path)
        world.propose(leader, b"waits")
        world.run_until(lambda: world.leader() != leader)
        world.commit(world.leader(), b"goes on")


def test_commits_by_others_are_answered_although_the_own_disk_stalls() -> None:
    with World() as world:
        leader = world.leader()
        world.fill(leader, 3)
        disk = world.disks[leader - 1]
        disk.hold(any_path)
        future = world.propose(leader, b"taken before")
        world.run_until(future.done)
        assert world.leader() != leader
        done = future.result()
        assert world.group(leader).high_watermark < done.next_offset, "it is not durable where it was proposed"
        disk.release()
        world.converge()
        assert world.values(leader)[-1] == b"taken before"


def trim_to_the_last_segment(world: World, leader: int) -> None:
    group = world.group(leader)
    assert len(group.log.segments.segments) > 1
    (trimmed,) = world.run_at(leader, lambda: group.propose_trim(group.log.segments.active.base_offset))
    world.run_until(trimmed.done)  # type: ignore[attr-defined]
    assert trimmed.exception() is None  # type: ignore[attr-defined]
    world.run_until(lambda: all(len(world.group(number).log.segments.segments) == 1 for number in (1, 2, 3)))


def check_writes_with_space(world: World, leader: int) -> None:
    for disk in world.disks:
        disk.capacity_bytes = None
    world.run(0.5)
    world.commit(leader, b"goes on")
    world.converge()


def test_trims_continue_when_records_are_refused_for_lack_of_space() -> None:
    with World() as world:
        leader = world.leader()
        world.fill(leader, 60)
        world.converge()
        for driver in world.drivers.values():
            driver.room = DiskRoom(driver.disk, driver.data_dir, 10_000)
        for disk in world.disks:
            disk.leave_free(9_000)
        world.run(0.5)
        refused = world.propose(leader, b"refused")
        assert isinstance(refused.exception(), StorageFull)
        trim_to_the_last_segment(world, leader)
        check_writes_with_space(world, leader)


def test_a_trim_commits_after_records_that_full_disks_refused() -> None:
    """The leader accepted the records with space of its own, just before the others reported full disks."""
    with World() as world:
        leader = world.leader()
        world.fill(leader, 60)
        world.converge()
        for number in {1, 2, 3} - {leader}:
            driver = world.drivers[number]
            driver.room = DiskRoom(driver.disk, driver.data_dir, 10_000)
            world.disks[number - 1].leave_free(4_000)
        world.run(0.5)
        stuck = world.propose(leader, b"stuck")
        world.run(1)
        assert not stuck.done()
        trim_to_the_last_segment(world, leader)
        assert stuck.done()
        check_writes_with_space(world, leader)


def test_elections_never_stop_a_process_on_a_full_disk() -> None:
    with World() as world:
        leader = world.leader()
        world.fill(leader, 5)
        for disk in world.disks:
            disk.leave_free(300)
        futures = [world.propose(leader, b"%d" % number + bytes(900)) for number in range(12)]
        world.run(1)
        assert any(world.group(number).is_disk_full for number in (1, 2, 3))
        for _ in range(200):
            for number in (1, 2, 3):
                world.run_at(number, lambda number=number: world.group(number).step_down("once more"))
            world.run(1)
            assert not world.failures
            if all(driver.journal.is_reserve_low for driver in world.drivers.values()):
                break
        assert any(driver.journal.is_reserve_low for driver in world.drivers.values()), "the test is too short"
        for disk in world.disks:
            disk.capacity_bytes = None
        world.run_until(lambda: all(future.done() for future in futures))
        world.commit(world.leader(), b"afterwards")
        world.converge()
        assert world.files(1) == world.files(2) == world.files(3)
        assert not world.failures


def test_a_deposed_leader_reads_the_entries_that_replaced_its_own() -> None:
    with World() as world:
        old = world.leader()
        world.fill(old, 3)
        world.converge()
        others = [number for number in (1, 2, 3) if number != old]
        for number in others:
            world.network.cut(world.nodes[old - 1], world.nodes[number - 1])
            world.network.cut(world.nodes[number - 1], world.nodes[old - 1])
        for number in range(5):
            world.propose(old, b"lost %d" % number)
        world.run_until(lambda: any(world.group(number).core.role is Role.LEADER for number in others))
        new = next(number for number in others if world.group(number).core.role is Role.LEADER)
        kept = [b"kept %d" % number for number in range(3)]
        for value in kept:
            world.commit(new, value)
        world.network.heal()
        world.converge()
        assert world.values(old)[-3:] == kept


def test_a_batch_above_the_journals_bound_is_accepted() -> None:
    with World() as world:
        value = bytes(SMALL.journal.pending_bytes_max + 1)
        world.commit(world.leader(), value)
        world.converge()
        assert all(world.values(number) == [value] for number in (1, 2, 3))
