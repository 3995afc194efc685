"""The nemesis: each fault is undone, and nodes that are down get no fault."""

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from jepsen.disk import DiskCounters
from jepsen.nemeses.fault import KINDS, Fault, FaultKind, Link
from jepsen.nemeses.nemesis import END_LATER_S_MAX, Nemesis
from jepsen.nemeses.network_faults import PACKET_CONDITIONS
from jepsen.nemeses.schedule import draw_schedule
from raftlog.testing import NetworkConditions
from raftlog.types import TopicPartition

PLACES = (TopicPartition("t", 0), TopicPartition("t", 1))


class Disk:
    """Disk of one node that records requests in `done`."""

    def __init__(self, node: int, done: list[str]) -> None:
        self._node, self._done = node, done
        self.is_slow = self.is_failing = self.is_full = False
        self.is_idle = False
        """Whether faults have no effect."""
        self._delayed = self._failed = self._refused = self._stalls = 0

    def lose_power(self, random: Random) -> str:
        self._done.append(f"lose {self._node}")
        return "dropped 2 pages"

    def mark_durable(self) -> None:
        pass

    def slow_syncs(self, seconds: float) -> None:
        self.is_slow = seconds > 0
        self._delayed += self.is_slow and not self.is_idle

    def fail_syncs(self, count: int) -> None:
        self.is_failing = count != 0
        self._failed += self.is_failing and not self.is_idle

    def fill(self) -> None:
        self.is_full = True
        self._refused += not self.is_idle

    def free(self) -> None:
        self.is_full = False

    def stall_loop(self, seconds: float) -> None:
        self._stalls += seconds > 0 and not self.is_idle

    def read_counters(self) -> DiskCounters:
        return DiskCounters(10, self._delayed, self._failed, self._refused, self._stalls, 300 * self._stalls, 20)


class Clock:
    """Clock of a node with offset and speed."""

    def __init__(self) -> None:
        self.offset_s, self.factor = 0.0, 1.0

    def jump(self, seconds: float) -> None:
        self.offset_s = seconds

    def drift(self, factor: float) -> None:
        self.factor = factor

    def reset(self) -> None:
        self.offset_s, self.factor = 0.0, 1.0


class Victims:
    """Three nodes that record the effects of faults in `done`."""

    def __init__(self, leader: int | None = None) -> None:
        self.up = dict.fromkeys((1, 2, 3), True)
        self.addresses = {node: f"node{node}:80" for node in self.up}
        self.conditions: dict[Link, NetworkConditions] = {}
        self.gossip_lost: tuple[Link, ...] = ()
        self.paused: set[int] = set()
        self.starting: set[int] = set()
        self.ending: set[int] = set()
        self.lost: tuple[Link, ...] = ()
        self.done: list[str] = []
        self._leader = leader
        self.disks = {node: Disk(node, self.done) for node in self.up}
        self.clocks = {node: Clock() for node in self.up}
        self.directories: dict[int, Path] = {}
        self.dropped_or_delayed = "7 bytes dropped, 7 bytes delayed"

    def is_up(self, node: int) -> bool:
        return self.up[node]

    def is_serving(self, node: int) -> bool:
        return self.up[node] and node not in self.starting

    def kill(self, node: int) -> str:
        assert self.up[node], "a node that is down is not killed"
        self.up[node] = False
        self.paused.discard(node)
        self.ending.discard(node)
        self.done.append(f"kill {node}")
        return f"node {node} is dead"

    def is_available(self) -> bool:
        return all(self.up.values()) and not self.starting

    def change(self, shape: str, node: int, place: TopicPartition) -> str:
        self.done.append(f"{shape} {node} {place}")
        return "" if shape == "join" else "it was ordered"

    def terminate(self, node: int) -> str:
        assert self.up[node], "a stopped node is not ordered to end"
        self.ending.add(node)
        self.done.append(f"terminate {node}")
        return f"node {node} was told"

    def end(self, node: int) -> None:
        """Stop the node in order."""
        self.ending.remove(node)
        self.up[node] = False

    def launch(self, node: int) -> None:
        self.up[node] = True
        self.done.append(f"launch {node}")

    def pause(self, node: int) -> str:
        assert self.up[node], "a node that is down is not paused"
        self.paused.add(node)
        return f"node {node} stands still"

    def resume(self, node: int) -> None:
        self.paused.discard(node)

    def is_healthy(self) -> bool:
        return self.is_available()

    def cut(self, rpc: Sequence[Link], gossip: Sequence[Link]) -> None:
        self.lost, self.gossip_lost = tuple(rpc), tuple(gossip)

    def set_conditions(self, links: Sequence[Link], conditions: NetworkConditions) -> None:
        self.conditions |= dict.fromkeys(links, conditions)

    def expect_end(self, node: int) -> None:
        self.done.append(f"may end {node}")

    def link_effects(self, links: Sequence[Link]) -> str:
        return self.dropped_or_delayed

    def clock_error_s(self, node: int) -> float | None:
        return self.clocks[node].offset_s

    def data_dirs(self) -> dict[int, Path]:
        return self.directories

    def leader(self, place: TopicPartition) -> int | None:
        return self._leader


class TimedNemesis(Nemesis):
    """Nemesis whose clock the test sets."""

    def __init__(self, victims: Victims, faults: Sequence[Fault], note: Callable[[str, dict[str, Any]], None]) -> None:
        self.time_s = 0.0
        super().__init__(victims, faults, PLACES, note, lambda: self.time_s)

    def step_at(self, time_s: float) -> None:
        self.time_s = time_s
        self.step()


def make_nemesis(victims: Victims, *faults: Fault) -> tuple[TimedNemesis, list[str]]:
    notes: list[str] = []

    def note(what: str, more: dict[str, Any]) -> None:
        notes.append(what)

    return TimedNemesis(victims, faults, note), notes


def test_a_fault_begins_and_ends_and_is_recorded_with_its_proof() -> None:
    victims = Victims()
    work, notes = make_nemesis(victims, Fault("kill", 1.0, 2.0, (2,)))
    work.step_at(0.9)
    assert victims.up[2]
    work.step_at(1.1)
    assert not victims.up[2]
    assert work.under_way == ["kill node 2"]
    work.step_at(2.1)
    assert victims.up[2]
    assert work.under_way == []
    assert notes == ["kill node 2 begins (node 2 is dead)", "kill node 2 ends"]
    assert [(each.kind, each.begin_s, each.end_s) for each in work.happened] == [("kill", 1.1, 2.1)]


def test_a_killed_node_counts_as_affected_until_it_serves() -> None:
    victims = Victims()
    victims.starting = {2}
    work, _ = make_nemesis(victims, Fault("kill", 1.0, 2.0, (2,)), Fault("pause", 1.0, 2.0, (1,)))
    for second in (1.0, 2.0, 5.0):
        work.step_at(second)
    assert [(each.kind, each.served_s) for each in work.happened] == [("pause", 2.0)]
    victims.starting = set()
    work.step_at(6.0)
    assert [(each.kind, each.end_s, each.served_s) for each in work.happened][1:] == [("kill", 2.0, 6.0)]


def test_a_fault_that_begins_late_still_has_a_duration() -> None:
    victims = Victims()
    work, _ = make_nemesis(victims, Fault("kill", 1.0, 2.0, (2,)))
    work.step_at(5.0)
    work.step_at(5.1)
    assert not victims.up[2]
    work.step_at(5.3)
    assert victims.up[2]


def test_a_fault_of_the_leader_hits_the_present_leader() -> None:
    victims = Victims(leader=3)
    work, _ = make_nemesis(victims, Fault("kill", 1.0, 2.0, (1,), of_leader=1))
    work.step_at(1.0)
    assert [node for node, is_up in victims.up.items() if not is_up] == [3]


def test_a_node_that_is_already_down_gets_no_fault() -> None:
    victims = Victims()
    work, notes = make_nemesis(
        victims, Fault("kill", 1, 4, (1,)), Fault("kill", 2, 3, (1,)), Fault("pause", 2, 3, (1,))
    )
    for second in (1, 2, 3):
        work.step_at(second)
    assert not victims.up[1], "the end of a fault without an effect starts no node"
    work.step_at(3.5)
    work.finish()
    assert victims.done == ["kill 1", "launch 1"]
    assert sum("all of them were down" in note for note in notes) == 2
    assert len(work.happened) == 1, "what did nothing did not happen"
    assert work.unseen == [], "and disturbed no node"


def test_the_end_of_a_cut_leaves_another_one_in_place() -> None:
    victims = Victims()
    work, _ = make_nemesis(
        victims,
        Fault("cut", 1, 3, (1,), "not heard", ((1, 2),)),
        Fault("cut", 2, 4, (3,), "not heard", ((3, 2),)),
    )
    work.step_at(1)
    work.step_at(3)
    assert victims.lost == ((3, 2),)
    work.step_at(4)
    assert victims.lost == ()


def test_a_rolling_restart_restarts_one_node_after_another() -> None:
    victims = Victims()
    work, notes = make_nemesis(victims, Fault("roll", 1, 60, (3, 1, 2)))
    work.step_at(1)
    for second, node in ((2, 3), (10, 1), (20, 2)):
        work.step_at(second)
        work.step_at(second + 1)
        assert victims.done[-1] == f"terminate {node}", "no other node before it is back"
        victims.end(node)
        victims.starting = {node}
        work.step_at(second + 2)
        work.step_at(second + 3)
        assert victims.done[-1] == f"launch {node}"
        victims.starting = set()
        work.step_at(second + 4)
    work.step_at(30)
    assert [(each.kind, each.begin_s, each.proof.count("was told")) for each in work.happened] == [("roll", 1, 3)]
    assert "roll nodes 3, 1, 2 begins" in notes


def test_a_full_disk_meets_no_start() -> None:
    """A rolling restart skips brokers with a full disk, and the disk of a starting broker is not filled."""
    victims = Victims()
    victims.disks[2].fill()
    victims.starting = {3}
    work, _ = make_nemesis(victims, Fault("full", 1, 50, (1, 3)))
    work.step_at(1)
    assert [disk.is_full for disk in victims.disks.values()] == [True, True, False]
    victims.starting = set()
    work, _ = make_nemesis(victims, Fault("roll", 1, 60, (1, 2, 3)))
    for second in range(1, 8):
        work.step_at(second)
        for node in list(victims.ending):
            victims.end(node)
    assert victims.done == ["terminate 3", "launch 3"]


def test_a_rolling_restart_waits_for_a_healthy_cluster_and_ends_between_two_nodes() -> None:
    victims = Victims()
    work, _ = make_nemesis(victims, Fault("kill", 1, 4, (1,)), Fault("roll", 1, 10, (2, 3)))
    for second in (1, 2, 3):
        work.step_at(second)
    assert victims.done == ["kill 1"]
    work.step_at(4)
    work.step_at(5)
    assert victims.done == ["kill 1", "launch 1", "terminate 2"]
    work.step_at(11)
    assert work.under_way == ["roll nodes 2, 3"], "it does not leave node 2 as it is"
    victims.end(2)
    work.step_at(12)
    work.step_at(13)
    assert work.under_way == []
    assert victims.done[-1] == "launch 2"


def test_a_broker_killed_during_its_restart_is_started_by_the_kill() -> None:
    victims = Victims()
    work, _ = make_nemesis(victims, Fault("roll", 1, 3, (2,)), Fault("kill", 2, 8, (2,)))
    for second in (1, 1.5, 2, 3, 4):
        work.step_at(second)
    assert victims.done == ["terminate 2", "kill 2"]
    work.step_at(8)
    assert victims.done[-1] == "launch 2"


def test_operators_requests_are_not_waited_for() -> None:
    victims = Victims()
    work, notes = make_nemesis(
        victims,
        Fault("members", 1, 1.3, (2,), "join", of_leader=0),
        Fault("members", 1.1, 1.4, (3,), "leave", of_leader=1),
    )
    work.step_at(2)
    assert victims.done == ["join 2 t/0", "leave 3 t/1"]
    assert work.under_way == []
    assert [each.what for each in work.happened] == ["order to leave, node 3, partition 1"], "the first did nothing"
    assert "nothing to be done" in notes[0]


@pytest.mark.parametrize("seed", range(20))
def test_no_fault_remains_after_finish(seed: int) -> None:
    victims = Victims(leader=seed % 3 + 1)
    kinds = [kind for kind in KINDS if kind != "damage"]  # which wants files, as tests with real brokers have
    work, _ = make_nemesis(victims, *draw_schedule(seed, kinds, (1, 2, 3), 60, 2))
    for tenth in range(100 + 20 * seed):
        work.step_at(tenth / 10)
        for node in list(victims.ending - victims.paused):
            victims.end(node)
    work.finish()
    assert all(victims.up.values())
    assert not victims.paused
    assert victims.lost == victims.gossip_lost == ()
    assert set(victims.conditions.values()) <= {NetworkConditions()}, "no packet fault is left"
    assert not any(disk.is_slow or disk.is_failing or disk.is_full for disk in victims.disks.values())
    assert all((clock.offset_s, clock.factor) == (0.0, 1.0) for clock in victims.clocks.values())
    assert work.under_way == []


def test_all_nodes_lose_power_before_any_of_them_starts() -> None:
    victims = Victims()
    work, notes = make_nemesis(victims, Fault("power", 1, 2, (3, 1), seed=4))
    work.step_at(1)
    assert victims.done == ["kill 3", "kill 1", "lose 3", "lose 1"]
    assert "dropped 2 pages" in notes[0]
    work.step_at(2)
    assert victims.done[4:] == ["launch 3", "launch 1"]


def test_a_broker_is_restarted_after_a_failed_sync_but_not_after_a_slow_one() -> None:
    victims = Victims()
    work, _ = make_nemesis(victims, Fault("sync", 1, 2, (1,), "slow"), Fault("sync", 1, 2, (2,), "one fails"))
    for second in (1, 2, 3):
        work.step_at(second)
    assert victims.done == ["may end 2", "kill 2", "launch 2"]
    assert sorted(each.what for each in work.happened) == ["sync, one fails: node 2", "sync, slow: node 1"]


def test_a_fault_without_an_effect_does_not_count_and_is_repeated() -> None:
    victims = Victims()
    victims.disks[1].is_idle = True
    work, _ = make_nemesis(victims, Fault("stall", 1, 2, (1,)))
    work.step_at(1)
    assert work.missing_kinds == {"stall"}
    work.step_at(2)
    assert work.happened == []
    assert [(each.kind, each.begin_s, each.end_s, each.proof) for each in work.unseen] == [("stall", 1, 2, "")]
    victims.disks[1].is_idle = False
    work.step_at(3)
    assert work.under_way == ["stall node 1"]
    work.step_at(4)
    assert [(each.kind, each.begin_s, each.end_s) for each in work.happened] == [("stall", 3, 4)]
    assert work.missing_kinds == set()
    work.step_at(10)
    assert work.under_way == [], "once is enough"


def test_a_fault_is_not_repeated_when_another_of_its_kind_is_due() -> None:
    victims = Victims()
    victims.disks[1].is_idle = True
    work, _ = make_nemesis(victims, Fault("stall", 1, 2, (1,)), Fault("stall", 20, 21, (1,)))
    for second in (1, 2, 3, 4, 5):
        work.step_at(second)
    assert work.under_way == []
    work.step_at(20)
    assert work.under_way == ["stall node 1"]


@pytest.mark.parametrize("kind", ["stall", "full", "sync"])
def test_effects_of_an_earlier_fault_prove_nothing(kind: FaultKind) -> None:
    victims = Victims()
    for is_idle, count in ((False, 1), (True, 0)):
        victims.disks[1].is_idle = is_idle
        work, _ = make_nemesis(victims, Fault(kind, 1, 2, (1,), "slow"))
        for second in (1, 2, 2.5):
            work.step_at(second)
        assert len(work.happened) == count


def test_a_fault_that_cannot_begin_yet_is_postponed(tmp_path: Path) -> None:
    victims = Victims()
    victims.directories = {1: tmp_path / "1"}
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "journal").write_bytes(b"it is there")
    victims.starting = {3}
    work, _ = make_nemesis(victims, Fault("damage", 1, 1.5, (1,), "wipe"), Fault("pause", 1.2, 1.4, (2,)))
    for tenth in range(10, 31):
        work.step_at(tenth / 10)
    assert victims.done == [], "it is not the time for another loss"
    assert [each.kind for each in work.happened] == ["pause"], "others do not wait for it"
    victims.starting = set()
    work.step_at(4)
    assert victims.done == ["kill 1"]
    work.step_at(4.4)
    assert work.under_way == ["damage, wipe: node 1"], "as long as it was drawn"
    work.step_at(4.6)
    assert victims.done == ["kill 1", "launch 1"]


def test_a_broker_that_has_left_is_no_target_but_a_leaving_one_is(tmp_path: Path) -> None:
    victims = Victims(leader=2)
    victims.up[4], victims.addresses[4] = True, "node4:80"
    for node in victims.up:
        victims.directories[node] = tmp_path / str(node)
        victims.directories[node].mkdir()
        (victims.directories[node] / "journal").write_bytes(b"it is there")
    del victims.addresses[2], victims.directories[2]
    work, _ = make_nemesis(
        victims, Fault("kill", 1, 2, (1,), of_leader=0), Fault("damage", 3, 4, (1,), "wipe", of_leader=0)
    )
    for second in (1, 2, 3, 4, 5):
        work.step_at(second)
    assert [each.what for each in work.happened] == ["kill node 2", "damage, wipe: node 1"]
    victims.up[2] = False
    work, _ = make_nemesis(
        victims, Fault("kill", 1, 2, (2, 1)), Fault("cut", 3, 4, (2,), "not heard", ((2, 3), (2, 1)))
    )
    work.step_at(1)
    assert work.under_way == ["kill nodes 3, 1"]
    work.step_at(2)
    work.step_at(3)
    assert victims.lost == ((4, 3), (4, 1)), "no node that is cut off from it anyway takes its place"


def test_a_request_without_an_effect_is_repeated_in_another_form() -> None:
    victims = Victims()
    work, _ = make_nemesis(victims, Fault("members", 1, 1.3, (2,), "join", of_leader=0))
    for second in (1, 1.5, 2, 2.5):
        work.step_at(second)
    assert victims.done == ["join 2 t/0", "move 2 t/0"], "for which there is always something to be done"
    assert [each.what for each in work.happened] == ["order to move, node 2, partition 0"]
    assert work.unseen == []


def test_files_are_lost_one_after_another(tmp_path: Path) -> None:
    victims = Victims()
    for node in victims.up:
        victims.directories[node] = tmp_path / str(node)
        victims.directories[node].mkdir()
        (victims.directories[node] / "journal").write_bytes(b"it is there")
    work, _ = make_nemesis(victims, Fault("damage", 1, 6, (1,), "stale"), Fault("damage", 2, 3, (2,), "wipe"))
    work.step_at(1)
    assert victims.is_healthy(), "it runs and works on a disk that is to become old"
    for tenth in range(20, 60):
        work.step_at(tenth / 10)
    assert work.under_way == ["damage, stale: node 1"]
    for tenth in range(60, 90):
        work.step_at(tenth / 10)
    assert "damage, wipe: node 2" in [each.what for each in work.happened]


@pytest.mark.parametrize(
    ("first", "second", "both"),
    [("roll", "sync", False), ("sync", "kill", False), ("damage", "power", False), ("roll", "kill", True)],
)
def test_a_node_held_down_by_another_fault_is_not_started(
    first: FaultKind, second: FaultKind, both: bool, tmp_path: Path
) -> None:
    victims = Victims()
    victims.directories = {1: tmp_path}
    (tmp_path / "journal").write_bytes(b"it is there")
    shape = "wipe" if first == "damage" else "all fail"
    work, _ = make_nemesis(victims, Fault(first, 1, 5, (1,), shape), Fault(second, 2, 3, (1,), shape))
    work.step_at(1)
    work.step_at(2)
    assert len(work.under_way) == 1 + both


def test_a_broker_that_has_left_is_not_restarted_and_not_waited_for() -> None:
    victims = Victims()
    work, _ = make_nemesis(victims, Fault("roll", 1, 60, (1, 2)))
    work.step_at(1)
    work.step_at(1.5)
    assert victims.done == ["terminate 1"]
    del victims.addresses[1]
    victims.end(1)
    victims.starting = {1}
    for second in (2, 3):
        work.step_at(second)
    assert victims.done == ["terminate 1", "launch 1"]
    victims.starting = set()  # of the others all is whole
    del victims.addresses[2]
    for second in (4, 5):
        work.step_at(second)
    assert work.under_way == []
    assert victims.done == ["terminate 1", "launch 1"]


def test_a_kind_of_fault_is_owed_until_its_nodes_serve_again() -> None:
    victims = Victims()
    work, _ = make_nemesis(victims, Fault("kill", 1, 2, (1,)))
    victims.starting = {1}
    for second in (1, 1.5, 2, 3):
        work.step_at(second)
        assert work.missing_kinds == {"kill"}
    victims.starting = set()
    work.step_at(4)
    assert work.missing_kinds == set()


def test_a_cut_of_gossip_leaves_other_traffic_open() -> None:
    victims = Victims()
    work, _ = make_nemesis(victims, Fault("cut", 1, 2, (1,), "not heard", ((1, 2),), plane="gossip"))
    work.step_at(1)
    assert (victims.lost, victims.gossip_lost) == ((), ((1, 2),))


def test_the_end_of_a_network_fault_leaves_another_one_in_place() -> None:
    victims = Victims()
    work, _ = make_nemesis(
        victims,
        Fault("packet", 1, 3, (1,), "slow", ((1, 2), (1, 3))),
        Fault("packet", 2, 4, (2,), "loss", ((1, 2),)),
    )
    for second in (1, 2, 3):
        work.step_at(second)
    assert victims.conditions == {(1, 2): PACKET_CONDITIONS["loss"], (1, 3): NetworkConditions()}


@pytest.mark.parametrize("kind", ["power", "pause", "damage"])
def test_a_fault_without_an_effect_is_not_recorded(
    kind: FaultKind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victims = Victims()
    victims.directories = {1: tmp_path}
    monkeypatch.setattr(Disk, "lose_power", lambda *_: "")
    monkeypatch.setattr(Victims, "pause", lambda *_: "")
    work, notes = make_nemesis(victims, Fault(kind, 1, 2, (1,), "flip" if kind == "damage" else ""))
    work.step_at(1)
    work.step_at(2)
    assert len(notes) == 2
    assert work.happened == []
    assert victims.up[1]


@pytest.mark.parametrize("is_changed", [True, False])
def test_an_old_copy_of_unchanged_files_is_no_fault(is_changed: bool, tmp_path: Path) -> None:
    victims = Victims()
    victims.directories = {1: tmp_path / "1"}
    (tmp_path / "1").mkdir()
    work, _ = make_nemesis(victims, Fault("damage", 1, 2, (1,), "stale"))
    work.step_at(1)
    if is_changed:
        (tmp_path / "1" / "new").write_bytes(b"new")
    work.step_at(2)
    work.step_at(3)
    assert [each.kind for each in work.happened] == ["damage"] * is_changed
    assert not (tmp_path / "1" / "new").exists()


@pytest.mark.parametrize("serves_s", [4, None])
def test_an_old_copy_counts_only_if_the_broker_has_served_since(serves_s: float | None, tmp_path: Path) -> None:
    victims = Victims()
    victims.directories = {1: tmp_path / "1"}
    (tmp_path / "1").mkdir()
    work, _ = make_nemesis(victims, Fault("damage", 1, 2, (1,), "stale"))
    work.step_at(1)
    victims.starting = {1}
    for second in (2, 3):
        work.step_at(second)
    assert work.under_way == ["damage, stale: node 1"]
    if serves_s is not None:
        victims.starting = set()
        (tmp_path / "1" / "new").write_bytes(b"new")
        work.step_at(serves_s)
        assert victims.done == ["kill 1", "launch 1", "kill 1", "launch 1"]
        work.step_at(serves_s + 1)
        assert ["1 files differ" in each.proof for each in work.happened] == [True]
    else:
        work.step_at(1 + END_LATER_S_MAX)
        assert work.under_way == [], "its end does not wait for ever"


@pytest.mark.parametrize(("kind", "words"), [("cut", "7 bytes delayed by up to 3 ms"), ("packet", "7 bytes dropped")])
def test_effects_of_another_fault_on_a_link_prove_nothing(kind: FaultKind, words: str) -> None:
    victims = Victims()
    victims.dropped_or_delayed = words
    work, _ = make_nemesis(victims, Fault(kind, 1, 2, (1,), "slow" if kind == "packet" else "deaf", ((1, 2),)))
    work.step_at(1)
    work.step_at(2)
    assert work.happened == []
