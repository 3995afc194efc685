"""Faults of disks: unsynced, failed, damaged, lost, outdated, full or slow ones: F9 to F19."""

from collections.abc import Sequence
from random import Random
from typing import Final

from jepsen import damage
from jepsen.runner.stage import Stage
from jepsen.scenarios.broker_requests import NO_ROOM, OwnTopic, partition_path, read_bounds
from jepsen.scenarios.expectations import WriteGapBound
from jepsen.scenarios.scenario import Scenario

SLOW_S: Final = 2.0
WITHOUT_WRITE_S_MAX: Final = 3.0
"""Longest time without a write, in seconds, while a leader's syncs stall (docs/how-to/monitor.md)."""
RESUMED_S_MAX: Final = 5.0
"""Longest time, in seconds, until writes resume when there is room again; docs/how-to/replace-a-disk.md states a
second."""
HEALED_S_MAX: Final = 60.0


def cut_power_of_acknowledging_voter(stage: Stage) -> None:
    """Cut the power of the only follower that acknowledged the leader's entries, just before the next election."""
    for _ in range(2):
        leader = stage.leader()
        wiped, away = stage.others(leader)
        dead = stage.begin("kill", away)  # one that only slept would find all of it in its sockets
        stage.wait(2.5)
        off = stage.begin("power", wiped)
        paused_leader = stage.begin("pause", leader)
        stage.end(dead)
        stage.end(off)
        stage.leader(other_than=[leader])
        stage.wait(2)
        stage.end(paused_leader)
        stage.wait_served()


def cut_power_of_all(stage: Stage) -> None:
    """Kill all nodes at once and drop their unsynced writes, three times."""
    random = Random(stage.options.seed)  # noqa: S311 - repeatable, not secret
    for _ in range(3):
        stage.wait(random.uniform(1.5, 3))
        with stage.fault("power", *stage.nodes):
            stage.wait(0.2)
        stage.wait_served()


def fail_one_sync(stage: Stage) -> None:
    """Fail one sync on a leader and one on a follower: the process exits, because its disk's content is unknown."""
    for leads in (True, False):
        leader = stage.leader()
        victim = leader if leads else stage.others(leader)[0]
        with stage.fault("sync", victim, shape="one fails"):
            stage.wait_until(lambda node=victim: not stage.system.is_up(node), f"node {victim} ends")  # type: ignore[misc]
            node = stage.brokers.nodes[victim]
            stage.expect(node.exit_code == 1, f"node {victim} ended with 1: {node.exit_code}")
            stage.expect("a sync failed" in node.log_text(), f"node {victim} says that a sync failed")
            stage.leader(other_than=[victim])
            stage.wait(1.5)
        stage.wait_served()
        stage.wait(1)


def tear_log_end_repeatedly(stage: Stage) -> None:
    """Tear the end of a log repeatedly, with writes in between; finally truncate it from outside."""
    victim = stage.others(stage.leader())[0]
    for _ in range(3):
        stage.wait(1.5)
        stage.end(stage.begin("power", victim))
        stage.wait_served()
    for _ in range(2):
        _damage(stage, victim, "truncate", "segment")
        stage.wait(1)


def damage_records_of_next_leader(stage: Stage) -> None:
    """Damage records of the next leader: reads return right bytes or an error, and it becomes leader once repaired."""
    stage.wait(2)
    for _ in range(2):
        victim = stage.others(stage.leader())[0]
        _make_lead(stage, victim, _damage(stage, victim, "flip", "segment"))
        stage.wait_healthy(HEALED_S_MAX)


def _damage(stage: Stage, victim: int, shape: str, *files: str) -> list[int]:
    """Damage files of a stopped node while all others are healthy, and start it.

    Returns the numbers of the partitions that were hit."""
    stage.wait_healthy(HEALED_S_MAX)
    running = stage.begin("damage", victim, shape=shape, files=files)
    stage.end(running)
    stage.wait_served()
    return [number for number, place in enumerate(stage.places) if f"{place}/" in running.proof]


def _make_lead(stage: Stage, node: int, numbers: Sequence[int]) -> None:
    """Make the node leader of these partitions, or of the first one if the damage is outside of them."""
    for number in numbers or (0,):

        def leads(number: int = number) -> bool:
            """Return whether the node leads the partition; otherwise request a transfer to it."""
            if stage.system.leader(stage.places[number]) == node:
                return True
            stage.change("lead", node, number)
            return False

        stage.wait_until(leads, f"node {node} leads {stage.places[number]}", HEALED_S_MAX)


def damage_metadata(stage: Stage) -> None:
    """Damage metadata of the broker and of the controller; nothing is deleted because of it.

    A damaged identity ends the process, and the operator gives it an empty directory."""
    stage.wait(1)
    victims = stage.others(stage.leader())
    for victim, shape, *files in (
        (victims[0], "flip", "controller"),
        (victims[1], "flip", "journal"),
        (victims[0], "truncate", "controller"),
        (victims[1], "flip", "meta", "peers"),
    ):
        _damage(stage, victim, shape, *files)
    stage.wait_healthy(HEALED_S_MAX)
    _lose_identity(stage, victims[0])


def _lose_identity(stage: Stage, victim: int) -> None:
    """Damage the node's identity, expect the end of its process, and start it with an empty directory."""
    stage.end(stage.begin("damage", victim, shape="flip", files=("identity",)))
    stage.system.expect_end(victim)
    if not stage.wait_until(lambda: not stage.system.is_up(victim), f"node {victim} ends"):
        return
    stage.expect((stage.system.data_dirs()[victim] / stage.places[0].topic).is_dir(), "and touches nothing")
    stage.note(damage.wipe(stage.system.data_dirs()[victim]))
    stage.system.launch(victim)
    stage.wait_served()
    stage.wait_healthy(HEALED_S_MAX)


def damage_indexes(stage: Stage) -> None:
    """Damage index and time index files of a follower, then make it leader."""
    stage.wait(2)
    for shape, files in (("flip", ("index",)), ("flip", ("timeindex",)), ("truncate", ("index",))):
        victim = stage.others(stage.leader())[0]
        _make_lead(stage, victim, _damage(stage, victim, shape, *files))


def lose_disk(stage: Stage) -> None:
    """Replace the disk of a leader and of a follower by an empty one: each becomes a new disk with all records."""
    stage.wait(2)
    for victim in (stage.leader(), stage.others(stage.leader())[0]):
        stage.wait_healthy(HEALED_S_MAX)
        before = _find_disk_uuid(stage, victim)
        _damage(stage, victim, "wipe")
        stage.wait_healthy(HEALED_S_MAX)
        after = _find_disk_uuid(stage, victim)
        stage.expect(before != after, f"node {victim} is back as another disk: {before}, now {after}")


def restore_old_disk(stage: Stage) -> None:
    """Restore an old copy of a follower's disk: the cluster refuses it, and it becomes a new disk."""
    stage.wait(1)
    victim = stage.others(stage.leader())[0]
    stage.wait_healthy(HEALED_S_MAX)
    before = _find_disk_uuid(stage, victim)
    with stage.fault("damage", victim, shape="stale"):
        stage.wait_healthy(HEALED_S_MAX)
        stage.wait(3)
    stage.wait_served()
    stage.wait_healthy(HEALED_S_MAX)
    after = _find_disk_uuid(stage, victim)
    stage.expect(before != after, f"node {victim} is back as another disk: {before}, now {after}")


def _find_disk_uuid(stage: Stage, node: int) -> str | None:
    """Return the disk uuid of the node according to another node; None if no node answers."""
    for other in stage.others(node):
        status, answer = stage.ask(other, f"/v1/brokers/{node}")
        if status == 200:
            return str(answer["disk_uuid"])
    return None


def fill_disks(stage: Stage) -> None:
    """Fill one disk, after which another node leads, and then most disks.

    With most disks full, writes are refused as failed, reads and deletions work, and later writes resume."""
    own = OwnTopic(stage, {})
    stage.wait_until(lambda: own.write(stage.nodes[0], 10)[0] == 200, "records are taken")
    leader = stage.leader()
    with stage.fault("full", leader):
        stage.leader(other_than=[leader])
        stage.wait_until(
            lambda: stage.system.disks[leader].read_counters().refused > 0, f"node {leader} is refused room"
        )
        stage.wait(1)
    stage.wait_healthy(HEALED_S_MAX)
    most = [stage.leader(), stage.others(stage.leader())[0]]
    with stage.fault("full", *most):
        stage.wait_until(lambda: own.write(most[0])[0] == NO_ROOM, f"records are refused with {NO_ROOM}", 10)
        stage.wait(1)
        status, answer = own.write(most[0])
        stage.expect((status, answer.get("outcome")) == (NO_ROOM, "failed"), f"and definitely: {status} {answer}")
        bounds = read_bounds(stage, most[0], own.place)
        stage.expect(bounds is not None and bounds[1] >= 10, f"where records end is known: {bounds}")
        status, records = stage.ask(most[0], f"{partition_path(own.place)}/records?offset=0&timeout=100")
        stage.expect(status == 200 and len(records) >= 10, f"records are read: {status}")
        status, answer = own.trim(most[0], 5)
        stage.expect(status == 200, f"records can be deleted: {status} {answer}")
        status, answer = own.delete(most[0])
        stage.expect(status in (200, 204), f"topics can be deleted: {status} {answer}")
    free_s = stage.now_s()
    place = stage.places[0]
    stage.wait_until(
        lambda: stage.ask(most[0], f"{partition_path(place)}/offsets")[0] == 200 and stage.system.is_healthy(),
        "all is well again",
        RESUMED_S_MAX,
    )
    stage.note(f"all was well again after {stage.now_s() - free_s:.1f} s")


def slow_down_syncs(stage: Stage) -> None:
    """Delay syncs of a leader, which transfers leadership, and then of a follower, which has no effect.

    The leader comes first: after it was slow, a process does not become leader for a time. If a follower had been slow
    before, two of three nodes would be slow, and no transfer would help."""
    leader = stage.leader()
    with stage.fault("sync", leader, shape="slow", amount=SLOW_S):
        stage.leader(other_than=[leader])
        stage.wait(4)
    stage.wait(1)
    leads = stage.leader(other_than=[leader])
    follower = stage.others(leader, leads)[0]
    with stage.fault("sync", follower, shape="slow", amount=SLOW_S):
        stage.wait(4)
    stage.expect(stage.leader() == leads, f"node {leads} leads on")


SCENARIOS: Final = (
    Scenario(
        "F9",
        "a follower's power goes, and it is in the next quorum",
        cut_power_of_acknowledging_voter,
        ("power", "kill", "pause"),
        seconds=20.0,
    ),
    Scenario("F10", "the power goes everywhere at once", cut_power_of_all, ("power",), seconds=16.0),
    Scenario("F11", "one sync fails, and later ones do not", fail_one_sync, ("sync",)),
    Scenario("F12", "the end of a log is torn twice", tear_log_end_repeatedly, ("power", "damage"), seconds=20.0),
    Scenario(
        "F13",
        "bits of committed records flip on a replica that shall lead",
        damage_records_of_next_leader,
        ("damage", "members"),
        seconds=20.0,
    ),
    Scenario("F14", "journal, metadata and identity are damaged", damage_metadata, ("damage",), seconds=30.0),
    Scenario("F15", "indexes are damaged", damage_indexes, ("damage", "members"), seconds=18.0),
    Scenario("F16", "a disk is lost, and its node comes back empty", lose_disk, ("damage",), seconds=20.0),
    Scenario("F17", "a disk is an old copy of itself", restore_old_disk, ("damage",), seconds=25.0),
    Scenario("F18", "a disk is full, and then most are", fill_disks, ("full",), seconds=20.0),
    Scenario(
        "F19",
        "syncs take 2 s longer, of a leader and of a follower",
        slow_down_syncs,
        ("sync",),
        seconds=16.0,
        expects=(WriteGapBound(WITHOUT_WRITE_S_MAX),),
    ),
)
