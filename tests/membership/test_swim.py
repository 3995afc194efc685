"""The SWIM machine beyond the papers: starts, node ids, pauses, leaving, forgetting, streams, bounds."""

import ast
from dataclasses import replace
from pathlib import Path

import pytest

from raftlog.membership.encoding import payload_bytes_max
from raftlog.membership.member import Claim
from raftlog.membership.messages import Ack, DigestRoot, Ping
from raftlog.membership.swim import OutgoingStream, Swim
from raftlog.types import NodeId
from tests.membership.gossip import (
    ALIVE,
    CONFIG,
    DEAD,
    LEFT,
    STILL,
    SUSPECT,
    GossipNet,
    address,
    claim,
    discard_output,
    disk,
    first_incarnation,
    make_about,
    sender,
    state_of,
    swim,
    swim_with_members,
    take_sent,
)

CORE = (
    "awareness",
    "broadcasts",
    "changes",
    "config",
    "digest",
    "encoding",
    "exchange",
    "member",
    "messages",
    "outbox",
)
CORE += ("probes", "roster", "rounds", "states", "suspicion", "swim", "syncs", "view")


@pytest.mark.parametrize("module", CORE)
def test_the_core_has_no_clock_randomness_or_network(module: str) -> None:
    tree = ast.parse((Path(__file__).parents[2] / "membership" / f"{module}.py").read_text())
    imported = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    imported |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
    assert not imported & {"asyncio", "socket", "time", "random.random", "os", "logging", "threading"}
    others = {name for name in imported if name.startswith("raftlog.membership.")}
    assert others <= {f"raftlog.membership.{each}" for each in CORE}


# starts


def test_a_lone_member_only_ticks() -> None:
    machine = swim(1)
    calls = 0
    while machine.due() < 10.0:
        machine.tick(machine.due())
        calls += 1
    assert calls <= 25
    assert machine.take_sends() == []


def test_a_restart_supersedes_all_earlier_claims() -> None:
    net = GossipNet(1, 2, 3)
    net.machines[3].set_description(b"words", net.now)
    net.run(1.0)
    net.kill(3)
    net.start(3, boot=2)
    net.run(1.0)
    assert {machine.member(NodeId(3)).incarnation for machine in net.machines.values()} == {
        first_incarnation(3, boot=2)
    }
    assert not [change for change in net.changes if change[3] is DEAD]


def test_a_dead_member_is_alive_after_a_restart() -> None:
    net = GossipNet(1, 2, 3)
    net.kill(3)
    net.run(6.0)
    assert set(net.states(3).values()) == {DEAD}
    net.start(3, boot=2)
    net.run(1.0)
    assert set(net.states(3).values()) == {ALIVE}


def test_a_new_member_learns_of_dead_members() -> None:
    net = GossipNet(1, 2, 3)
    net.kill(3)
    net.run(6.0)
    newcomer = net.start(4)
    net.run(1.0)
    assert state_of(newcomer, 3) is DEAD


def test_addresses_are_tried_until_a_member_answers() -> None:
    machine = swim(1)
    machine.join([address(2), address(3)], 0.0)
    tried = []
    while machine.due() < 9.0:
        machine.tick(machine.due())
        tried += [stream.address.port - 7000 for stream in machine.take_streams()]
    assert len(tried) >= 5
    assert set(tried) == {2, 3}
    machine.handle_frame([claim(2, ALIVE, first_incarnation(2)), claim(3, ALIVE, first_incarnation(3))], sender(2), 9.0)
    assert len(exchanges(machine, 25.0)) == 1  # one more exchange, for later claims


def exchanges(machine: Swim, end: float) -> list[OutgoingStream]:
    """Return the exchanges that begin while all pings are answered."""
    discard_output(machine)
    streams: list[OutgoingStream] = []
    while machine.due() < end:
        now = machine.due()
        machine.tick(now)
        for to, ping in take_sent(machine, Ping):
            machine.receive([Ack(ping.sequence)], sender(to), now)
        streams += machine.take_streams()
    return streams


def test_a_member_pinged_by_a_stranger_asks_for_its_claim() -> None:
    """The receiver may have restarted, without any address of the sender."""
    machine = swim(1, config=STILL)
    for sequence in range(5):
        machine.receive([Ping(sequence, NodeId(1), disk(1))], sender(2), 0.0)
    [stream] = machine.take_streams()
    assert stream.address == address(2)
    assert isinstance(stream.messages[-1], DigestRoot)


# names


def test_a_node_id_stays_with_its_disk_while_the_member_is_up() -> None:
    machine = swim_with_members(1, [2, 3], config=STILL)
    machine.receive([claim(2, ALIVE, first_incarnation(2) + 100, on=disk(2, 1))], sender(3), 0.0)
    assert machine.member(NodeId(2)).disk_uuid == disk(2)
    [conflict] = machine.take_conflicts()
    assert (conflict.known.disk_uuid, conflict.other.disk_uuid) == (disk(2), disk(2, 1))


def test_a_conflict_is_reported_once_a_minute() -> None:
    machine = swim_with_members(1, [2, 3], config=STILL)
    said = []
    for now in (0.0, 1.0, 59.0, 61.0):
        machine.receive([claim(2, ALIVE, first_incarnation(2), on=disk(2, 1))], sender(3), now)
        said.append(len(machine.take_conflicts()))
    assert said == [1, 0, 0, 1]


def test_two_processes_on_copies_of_one_disk_are_reported() -> None:
    machine = swim_with_members(1, [2, 3], config=STILL)
    twin = claim(2, ALIVE, first_incarnation(2))._replace(about=make_about(first_incarnation(2), 9))
    machine.receive([twin], sender(3), 0.0)
    assert machine.member(NodeId(2)).address == address(2)
    assert len(machine.take_conflicts()) == 1


def test_a_wiped_disk_takes_over_its_node_id_after_the_old_disk_is_dead() -> None:
    net = GossipNet(1, 2, 3)
    net.kill(3)
    net.start(3, boot=1, on=disk(3, 1))
    net.run(1.0)
    assert {machine.member(NodeId(3)).disk_uuid for node, machine in net.machines.items() if node != 3} == {disk(3)}
    net.run(8.0)
    known = [machine.member(NodeId(3)) for machine in net.machines.values()]
    assert {(each.disk_uuid, each.state) for each in known} == {(disk(3, 1), ALIVE)}


def test_a_restart_rises_above_incarnations_that_were_used_before() -> None:
    """A new disk has a low boot epoch: it rises above the old disk's incarnations, and restarts once."""
    net = GossipNet(1, 2, 3)
    net.kill(3)
    net.start(3, boot=7)
    net.run(1.0)
    net.kill(3)
    net.run(8.0)
    net.start(3, boot=1, on=disk(3, 1))
    net.run(2.0)
    net.kill(3)
    net.start(3, boot=2, on=disk(3, 1))
    net.run(2.0)
    incarnations = {machine.member(NodeId(3)).incarnation for machine in net.machines.values()}
    assert len(incarnations) == 1
    assert incarnations.pop() > first_incarnation(3, boot=7)
    assert set(net.states(3).values()) == {ALIVE}


def test_two_members_that_outbid_each_other_do_so_rarely() -> None:
    machine = swim_with_members(1, [2, 3], config=replace(STILL, period_s=1.0))
    for each in range(1, 50):
        machine.receive([claim(1, ALIVE, first_incarnation(1) + 10 * each)], sender(2), each / 100)
    assert machine.member(NodeId(1)).incarnation == first_incarnation(1) + 11


# pauses and clocks


def test_a_paused_process_declares_no_member_dead() -> None:
    net = GossipNet(1, 2, 3, 4, 5)
    net.run(0.37)
    net.stopped.add(1)
    net.run(30.0)
    net.stopped.clear()
    net.run(0.0)
    assert {state_of(net.machines[1], node) for node in range(2, 6)} == {ALIVE}
    net.run(10.0)
    assert not [change for change in net.changes if change[1] == 1 and change[3] in (SUSPECT, DEAD)]
    assert set(net.states(1).values()) == {ALIVE}


def test_a_late_tick_worsens_local_health_and_fails_no_probe() -> None:
    config = replace(CONFIG, period_s=1_000.0)
    machine = swim_with_members(1, [2, 3], config=config)
    machine.probe_now(NodeId(2), 0.0)
    [(_, ping)] = take_sent(machine, Ping)
    machine.tick(40.0)
    assert state_of(machine, 2) is ALIVE
    assert machine.counters().awareness == 1
    machine.receive([Ack(ping.sequence)], sender(2), 40.01)
    while machine.due() < 42.0:
        machine.tick(machine.due())
    assert (state_of(machine, 2), machine.counters().awareness) == (ALIVE, 0)


def test_a_suspicion_is_extended_by_our_own_pause() -> None:
    machine = swim_with_members(
        1, [2], config=replace(CONFIG, period_s=10.0, suspicion_base=0.5, suspicion_per_decade=0.0)
    )
    machine.receive([claim(2, SUSPECT, first_incarnation(2), by=3, told=False)], sender(3), 0.0)
    due = machine._view.suspicion_due
    machine.tick(1_000.0)
    assert state_of(machine, 2) is SUSPECT
    assert machine._view.suspicion_due > 1_000.0 + due - 2.0


# leaving and forgetting


def test_all_members_learn_that_a_member_left() -> None:
    net = GossipNet(1, 2, 3, 4, 5)
    net.machines[3].leave(net.now)
    net.run(1.0)
    net.kill(3)
    net.run(10.0)
    assert set(net.states(3).values()) == {LEFT}
    assert not [change for change in net.changes if change[3] in (SUSPECT, DEAD)]


def test_a_member_that_left_neither_probes_nor_refutes() -> None:
    machine = swim_with_members(1, [2, 3])
    machine.leave(0.0)
    assert (2, claim(1, LEFT, first_incarnation(1), by=1)) in take_sent(machine, Claim)
    machine.receive([claim(1, LEFT, first_incarnation(1), by=1)], sender(2), 0.1)
    for _ in range(50):
        if machine.due() < 20.0:
            machine.tick(machine.due())
    assert take_sent(machine, Ping) == []
    assert machine.member(NodeId(1)).state is LEFT


def test_dead_members_are_removed_after_a_time_and_not_revived() -> None:
    config = replace(CONFIG, reap_s=60.0)
    net = GossipNet(1, 2, 3, config=config)
    net.kill(3)
    net.run(30.0)
    assert set(net.states(3).values()) == {DEAD}
    net.run(60.0)
    assert set(net.states(3).values()) == {None}
    assert (1, None) in [(change[1], change[3]) for change in net.changes]
    net.machines[1].receive([claim(3, DEAD, first_incarnation(3), age_s=59)], sender(2), net.now)
    assert state_of(net.machines[1], 3) is None


def test_the_time_since_a_death_is_gossiped() -> None:
    net = GossipNet(1, 2, 3)
    net.kill(3)
    net.run(100.0)
    newcomer = net.start(4)
    net.run(1.0)
    assert 90 < net.now - newcomer.member(NodeId(3)).since < 110


# news that would not come otherwise


def test_false_claims_of_deaths_are_corrected() -> None:
    """The claimant is alive and gets no corrections; the others already have a higher incarnation."""
    config = replace(CONFIG, sync_interval_s=1e6)
    net = GossipNet(1, 2, 3, config=config)
    wrong = net.machines[1]
    for node in (2, 3):
        wrong.receive([claim(node, DEAD, first_incarnation(node), told=False)], sender(node), net.now)
        machine = net.machines[node]
        machine.set_description(b"beyond", net.now)
    wrong._broadcasts.drop(NodeId(2))
    wrong._broadcasts.drop(NodeId(3))
    net.run(6.0)
    assert {state_of(wrong, 2), state_of(wrong, 3)} == {ALIVE}


def test_two_halves_that_declared_each_other_dead_merge() -> None:
    net = GossipNet(1, 2, 3, 4)
    net.lost = lambda one, other: (one <= 2) != (other <= 2)
    net.run(120.0)
    assert net.states(4) == {1: DEAD, 2: DEAD, 3: ALIVE}
    net.lost = lambda _one, _other: False
    net.run(15.0)
    assert all(set(net.states(node).values()) == {ALIVE} for node in range(1, 5))


def test_a_description_reaches_all_members() -> None:
    net = GossipNet(1, 2, 3, 4)
    net.machines[2].set_description(b"x" * 400, net.now)
    net.run(1.0)
    assert {machine.member(NodeId(2)).description for machine in net.machines.values()} == {b"x" * 400}


def test_an_unchanged_description_is_no_news() -> None:
    machine = swim_with_members(1, [2])
    machine.set_description(b"x", 0.0)
    incarnation = machine.member(NodeId(1)).incarnation
    machine.set_description(b"x", 1.0)
    assert machine.member(NodeId(1)).incarnation == incarnation == first_incarnation(1) + 1


# streams


def test_a_silent_member_is_also_pinged_on_a_stream() -> None:
    machine = swim_with_members(1, [2, 3], config=STILL)
    machine.probe_now(NodeId(2), 0.0)
    machine.tick(0.3)
    [stream] = machine.take_streams()
    assert (stream.address, stream.timeout_s) == (address(2), pytest.approx(0.4))
    other = swim(2)
    answer = other.handle_frame(stream.messages, sender(1), 0.4)
    assert machine.handle_frame(answer, sender(2), 0.5) == []
    machine.tick(0.7)
    assert (state_of(machine, 2), machine.counters().probes_failed) == (ALIVE, 0)


def test_streams_are_enough_when_datagrams_are_lost() -> None:
    net = GossipNet(1, 2, 3)
    deliver = net._deliver
    net._deliver = lambda node, send: None if isinstance(send.messages[0], Ping) else deliver(node, send)
    net.run(60.0)
    assert not [change for change in net.changes if change[3] in (SUSPECT, DEAD)]


# hints and bounds


def test_a_doubt_starts_a_probe_at_once() -> None:
    net = GossipNet(1, 2, 3)
    net.kill(3)
    net.machines[1].probe_now(NodeId(3), net.now)
    net.run(0.75)
    assert state_of(net.machines[1], 3) is SUSPECT


def test_a_doubt_about_an_unknown_member_or_oneself_is_ignored() -> None:
    machine = swim_with_members(1, [2], config=STILL)
    machine.probe_now(NodeId(1), 0.0)
    machine.probe_now(NodeId(77), 0.0)
    assert take_sent(machine, Ping) == []


def test_members_are_bounded() -> None:
    machine = swim(1, config=replace(STILL, members_max=5))
    machine.receive([claim(node, ALIVE, 1) for node in range(2, 100)], sender(2), 0.0)
    assert len(machine.members()) == 5


def test_claims_about_strangers_without_their_description_are_ignored() -> None:
    machine = swim(1, config=STILL)
    machine.receive([claim(2, SUSPECT, 5, told=False), claim(3, DEAD, 5, told=False)], sender(4), 0.0)
    assert len(machine.members()) == 1


def test_every_datagram_fits() -> None:
    net = GossipNet(*range(1, 9))
    sizes = []
    deliver = net._deliver
    net._deliver = lambda node, send: (sizes.append(payload_bytes_max(send.messages)), deliver(node, send))
    for node, machine in net.machines.items():
        machine.set_description(bytes([node]) * 400, net.now)
    net.run(3.0)
    assert max(sizes) <= CONFIG.payload_bytes_max
    assert max(sizes) > CONFIG.payload_bytes_max / 2


def test_changes_report_the_former_state() -> None:
    machine = swim_with_members(1, [2, 3], config=STILL)
    machine.receive(
        [claim(2, SUSPECT, first_incarnation(2), told=False), claim(2, ALIVE, first_incarnation(2) + 1)], sender(3), 0.0
    )
    machine.receive([claim(2, ALIVE, first_incarnation(2) + 2)], sender(3), 0.0)
    assert [(each.before, each.after) for each in machine.take_changes()] == [
        (ALIVE, SUSPECT),
        (SUSPECT, ALIVE),
        (ALIVE, ALIVE),
    ]


def test_the_holder_of_a_contested_node_id_is_probed_at_once() -> None:
    """Other members may have declared it dead while no message reached this one."""
    machine = swim_with_members(1, [2, 3], config=STILL)
    machine.receive([claim(2, ALIVE, first_incarnation(2), on=disk(2, 1))], sender(3), 0.0)
    assert take_sent(machine, Ping)[0][0] == 2


def test_a_member_that_missed_a_change_of_disks_learns_of_it() -> None:
    net = GossipNet(1, 2, 3, 4, 5)
    net.lost = lambda one, other: 5 in (one, other)
    net.run(1.0)
    net.kill(3)
    net.start(3, boot=1, on=disk(3, 1))
    net.run(12.0)
    assert {machine.member(NodeId(3)).disk_uuid for node, machine in net.machines.items() if node != 5} == {disk(3, 1)}
    net.machines[5].receive([claim(3, ALIVE, first_incarnation(3) + 9)], sender(3), net.now)
    net.lost = lambda _one, _other: False
    net.run(40.0)
    assert {
        (each.disk_uuid, each.state) for each in (machine.member(NodeId(3)) for machine in net.machines.values())
    } == {(disk(3, 1), ALIVE)}
