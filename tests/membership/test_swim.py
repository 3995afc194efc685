"""The machine where the papers are silent: starts, names, pauses, leaving, forgetting, streams, bounds."""

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
    Net,
    about,
    address,
    claim,
    disk,
    drop,
    first,
    knowing,
    sender,
    sent,
    state_of,
    swim,
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
def test_the_core_has_neither_clock_nor_chance_nor_wires_of_its_own(module: str) -> None:
    tree = ast.parse((Path(__file__).parents[2] / "membership" / f"{module}.py").read_text())
    imported = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    imported |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
    assert not imported & {"asyncio", "socket", "time", "random.random", "os", "logging", "threading"}
    others = {name for name in imported if name.startswith("raftlog.membership.")}
    assert others <= {f"raftlog.membership.{each}" for each in CORE}


# starts


def test_a_lone_member_has_nothing_to_do_but_turns() -> None:
    machine = swim(1)
    calls = 0
    while machine.due() < 10.0:
        machine.tick(machine.due())
        calls += 1
    assert calls <= 25
    assert machine.take_sends() == []


def test_a_new_start_is_newer_than_all_earlier_claims() -> None:
    net = Net(1, 2, 3)
    net.machines[3].describe(b"words", net.now)
    net.run(1.0)
    net.kill(3)
    net.start(3, boot=2)
    net.run(1.0)
    assert {machine.member(NodeId(3)).incarnation for machine in net.machines.values()} == {first(3, boot=2)}
    assert not [change for change in net.changes if change[3] is DEAD]


def test_a_dead_member_comes_back_by_a_new_start() -> None:
    net = Net(1, 2, 3)
    net.kill(3)
    net.run(6.0)
    assert set(net.states(3).values()) == {DEAD}
    net.start(3, boot=2)
    net.run(1.0)
    assert set(net.states(3).values()) == {ALIVE}


def test_a_new_member_learns_of_dead_ones_too() -> None:
    net = Net(1, 2, 3)
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
    machine.converse([claim(2, ALIVE, first(2)), claim(3, ALIVE, first(3))], sender(2), 9.0)
    assert len(exchanges(machine, 25.0)) == 1  # in case that there was more to hear


def exchanges(machine: Swim, end: float) -> list[OutgoingStream]:
    """Return the exchanges that begin while all pings are answered."""
    drop(machine)
    streams: list[OutgoingStream] = []
    while machine.due() < end:
        now = machine.due()
        machine.tick(now)
        for to, ping in sent(machine, Ping):
            machine.receive([Ack(ping.sequence)], sender(to), now)
        streams += machine.take_streams()
    return streams


def test_a_member_pinged_by_a_stranger_asks_for_its_claim() -> None:
    """The receiver's memory may be new, and it may have received no address yet."""
    machine = swim(1, config=STILL)
    for sequence in range(5):
        machine.receive([Ping(sequence, NodeId(1), disk(1))], sender(2), 0.0)
    [stream] = machine.take_streams()
    assert stream.address == address(2)
    assert isinstance(stream.messages[-1], DigestRoot)


# names


def test_a_name_stays_with_its_holder_while_it_is_up() -> None:
    machine = knowing(1, [2, 3], config=STILL)
    machine.receive([claim(2, ALIVE, first(2) + 100, on=disk(2, 1))], sender(3), 0.0)
    assert machine.member(NodeId(2)).disk_uuid == disk(2)
    [conflict] = machine.take_conflicts()
    assert (conflict.known.disk_uuid, conflict.other.disk_uuid) == (disk(2), disk(2, 1))


def test_a_conflict_is_reported_once_a_minute() -> None:
    machine = knowing(1, [2, 3], config=STILL)
    said = []
    for now in (0.0, 1.0, 59.0, 61.0):
        machine.receive([claim(2, ALIVE, first(2), on=disk(2, 1))], sender(3), now)
        said.append(len(machine.take_conflicts()))
    assert said == [1, 0, 0, 1]


def test_two_processes_on_copies_of_one_disk_are_reported() -> None:
    machine = knowing(1, [2, 3], config=STILL)
    twin = claim(2, ALIVE, first(2))._replace(about=about(first(2), 9))
    machine.receive([twin], sender(3), 0.0)
    assert machine.member(NodeId(2)).address == address(2)
    assert len(machine.take_conflicts()) == 1


def test_a_wiped_disk_takes_its_name_over_once_the_old_one_is_dead() -> None:
    net = Net(1, 2, 3)
    net.kill(3)
    net.start(3, boot=1, on=disk(3, 1))
    net.run(1.0)
    assert {machine.member(NodeId(3)).disk_uuid for node, machine in net.machines.items() if node != 3} == {disk(3)}
    net.run(8.0)
    known = [machine.member(NodeId(3)) for machine in net.machines.values()]
    assert {(each.disk_uuid, each.state) for each in known} == {(disk(3, 1), ALIVE)}


def test_a_start_whose_numbers_were_used_up_before_outdoes_them() -> None:
    """Its disk is new, so its boot epoch is low; it had to rise above the old disk's words, and starts again."""
    net = Net(1, 2, 3)
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
    assert incarnations.pop() > first(3, boot=7)
    assert set(net.states(3).values()) == {ALIVE}


def test_two_that_outbid_each_other_do_so_rarely() -> None:
    machine = knowing(1, [2, 3], config=replace(STILL, period_s=1.0))
    for each in range(1, 50):
        machine.receive([claim(1, ALIVE, first(1) + 10 * each)], sender(2), each / 100)
    assert machine.member(NodeId(1)).incarnation == first(1) + 11


# pauses and clocks


def test_a_process_that_was_stopped_declares_no_member_dead() -> None:
    net = Net(1, 2, 3, 4, 5)
    net.run(0.37)
    net.stopped.add(1)
    net.run(30.0)
    net.stopped.clear()
    net.run(0.0)
    assert {state_of(net.machines[1], node) for node in range(2, 6)} == {ALIVE}
    net.run(10.0)
    assert not [change for change in net.changes if change[1] == 1 and change[3] in (SUSPECT, DEAD)]
    assert set(net.states(1).values()) == {ALIVE}


def test_a_late_call_makes_it_more_patient_and_fails_no_probe() -> None:
    config = replace(CONFIG, period_s=1_000.0)
    machine = knowing(1, [2, 3], config=config)
    machine.probe_now(NodeId(2), 0.0)
    [(_, ping)] = sent(machine, Ping)
    machine.tick(40.0)
    assert state_of(machine, 2) is ALIVE
    assert machine.counters().awareness == 1
    machine.receive([Ack(ping.sequence)], sender(2), 40.01)
    while machine.due() < 42.0:
        machine.tick(machine.due())
    assert (state_of(machine, 2), machine.counters().awareness) == (ALIVE, 0)


def test_a_suspect_gets_the_time_back_in_which_we_were_stopped() -> None:
    machine = knowing(1, [2], config=replace(CONFIG, period_s=10.0, suspicion_base=0.5, suspicion_per_decade=0.0))
    machine.receive([claim(2, SUSPECT, first(2), by=3, told=False)], sender(3), 0.0)
    due = machine._view.suspicion_due
    machine.tick(1_000.0)
    assert state_of(machine, 2) is SUSPECT
    assert machine._view.suspicion_due > 1_000.0 + due - 2.0


# leaving and forgetting


def test_a_leaving_member_is_known_to_have_left() -> None:
    net = Net(1, 2, 3, 4, 5)
    net.machines[3].leave(net.now)
    net.run(1.0)
    net.kill(3)
    net.run(10.0)
    assert set(net.states(3).values()) == {LEFT}
    assert not [change for change in net.changes if change[3] in (SUSPECT, DEAD)]


def test_a_member_that_left_neither_probes_nor_refutes() -> None:
    machine = knowing(1, [2, 3])
    machine.leave(0.0)
    assert (2, claim(1, LEFT, first(1), by=1)) in sent(machine, Claim)
    machine.receive([claim(1, LEFT, first(1), by=1)], sender(2), 0.1)
    for _ in range(50):
        if machine.due() < 20.0:
            machine.tick(machine.due())
    assert sent(machine, Ping) == []
    assert machine.member(NodeId(1)).state is LEFT


def test_the_dead_are_forgotten_after_a_time_and_not_brought_back() -> None:
    config = replace(CONFIG, reap_s=60.0)
    net = Net(1, 2, 3, config=config)
    net.kill(3)
    net.run(30.0)
    assert set(net.states(3).values()) == {DEAD}
    net.run(60.0)
    assert set(net.states(3).values()) == {None}
    assert (1, None) in [(change[1], change[3]) for change in net.changes]
    net.machines[1].receive([claim(3, DEAD, first(3), age_s=59)], sender(2), net.now)
    assert state_of(net.machines[1], 3) is None


def test_the_time_since_a_death_is_passed_on() -> None:
    net = Net(1, 2, 3)
    net.kill(3)
    net.run(100.0)
    newcomer = net.start(4)
    net.run(1.0)
    assert 90 < net.now - newcomer.member(NodeId(3)).since < 110


# news that would not come otherwise


def test_a_member_with_false_deaths_is_corrected() -> None:
    """The member gets no corrections, as it counts as alive; the others are beyond the incarnation that it accuses."""
    config = replace(CONFIG, sync_interval_s=1e6)
    net = Net(1, 2, 3, config=config)
    wrong = net.machines[1]
    for node in (2, 3):
        wrong.receive([claim(node, DEAD, first(node), told=False)], sender(node), net.now)
        machine = net.machines[node]
        machine.describe(b"beyond", net.now)
    wrong._broadcasts.drop(NodeId(2))
    wrong._broadcasts.drop(NodeId(3))
    net.run(6.0)
    assert {state_of(wrong, 2), state_of(wrong, 3)} == {ALIVE}


def test_two_halves_that_declared_each_other_dead_merge() -> None:
    net = Net(1, 2, 3, 4)
    net.lost = lambda one, other: (one <= 2) != (other <= 2)
    net.run(120.0)
    assert net.states(4) == {1: DEAD, 2: DEAD, 3: ALIVE}
    net.lost = lambda _one, _other: False
    net.run(15.0)
    assert all(set(net.states(node).values()) == {ALIVE} for node in range(1, 5))


def test_a_description_reaches_all_members() -> None:
    net = Net(1, 2, 3, 4)
    net.machines[2].describe(b"x" * 400, net.now)
    net.run(1.0)
    assert {machine.member(NodeId(2)).description for machine in net.machines.values()} == {b"x" * 400}


def test_the_same_words_again_are_no_news() -> None:
    machine = knowing(1, [2])
    machine.describe(b"x", 0.0)
    incarnation = machine.member(NodeId(1)).incarnation
    machine.describe(b"x", 1.0)
    assert machine.member(NodeId(1)).incarnation == incarnation == first(1) + 1


# streams


def test_a_silent_member_is_also_asked_on_a_stream() -> None:
    machine = knowing(1, [2, 3], config=STILL)
    machine.probe_now(NodeId(2), 0.0)
    machine.tick(0.3)
    [stream] = machine.take_streams()
    assert (stream.address, stream.timeout_s) == (address(2), pytest.approx(0.4))
    other = swim(2)
    answer = other.converse(stream.messages, sender(1), 0.4)
    assert machine.converse(answer, sender(2), 0.5) == []
    machine.tick(0.7)
    assert (state_of(machine, 2), machine.counters().probes_failed) == (ALIVE, 0)


def test_streams_are_enough_when_datagrams_are_lost() -> None:
    net = Net(1, 2, 3)
    deliver = net._deliver
    net._deliver = lambda node, send: None if isinstance(send.messages[0], Ping) else deliver(node, send)
    net.run(60.0)
    assert not [change for change in net.changes if change[3] in (SUSPECT, DEAD)]


# hints and bounds


def test_a_doubt_is_followed_at_once() -> None:
    net = Net(1, 2, 3)
    net.kill(3)
    net.machines[1].probe_now(NodeId(3), net.now)
    net.run(0.75)
    assert state_of(net.machines[1], 3) is SUSPECT


def test_a_doubt_about_an_unknown_member_or_oneself_is_ignored() -> None:
    machine = knowing(1, [2], config=STILL)
    machine.probe_now(NodeId(1), 0.0)
    machine.probe_now(NodeId(77), 0.0)
    assert sent(machine, Ping) == []


def test_no_more_members_are_taken_up_than_the_bound() -> None:
    machine = swim(1, config=replace(STILL, members_max=5))
    machine.receive([claim(node, ALIVE, 1) for node in range(2, 100)], sender(2), 0.0)
    assert len(machine.members()) == 5


def test_claims_about_strangers_without_their_description_are_ignored() -> None:
    machine = swim(1, config=STILL)
    machine.receive([claim(2, SUSPECT, 5, told=False), claim(3, DEAD, 5, told=False)], sender(4), 0.0)
    assert len(machine.members()) == 1


def test_every_datagram_fits() -> None:
    net = Net(*range(1, 9))
    sizes = []
    deliver = net._deliver
    net._deliver = lambda node, send: (sizes.append(payload_bytes_max(send.messages)), deliver(node, send))
    for node, machine in net.machines.items():
        machine.describe(bytes([node]) * 400, net.now)
    net.run(3.0)
    assert max(sizes) <= CONFIG.payload_bytes_max
    assert max(sizes) > CONFIG.payload_bytes_max / 2


def test_changes_have_the_former_state() -> None:
    machine = knowing(1, [2, 3], config=STILL)
    machine.receive([claim(2, SUSPECT, first(2), told=False), claim(2, ALIVE, first(2) + 1)], sender(3), 0.0)
    machine.receive([claim(2, ALIVE, first(2) + 2)], sender(3), 0.0)
    assert [(each.before, each.after) for each in machine.take_changes()] == [
        (ALIVE, SUSPECT),
        (SUSPECT, ALIVE),
        (ALIVE, ALIVE),
    ]


def test_the_holder_of_a_contested_name_is_probed_at_once() -> None:
    """Others may have declared it dead while no message reached us."""
    machine = knowing(1, [2, 3], config=STILL)
    machine.receive([claim(2, ALIVE, first(2), on=disk(2, 1))], sender(3), 0.0)
    assert sent(machine, Ping)[0][0] == 2


def test_one_that_missed_a_change_of_disks_learns_of_it() -> None:
    net = Net(1, 2, 3, 4, 5)
    net.lost = lambda one, other: 5 in (one, other)
    net.run(1.0)
    net.kill(3)
    net.start(3, boot=1, on=disk(3, 1))
    net.run(12.0)
    assert {machine.member(NodeId(3)).disk_uuid for node, machine in net.machines.items() if node != 5} == {disk(3, 1)}
    net.machines[5].receive([claim(3, ALIVE, first(3) + 9)], sender(3), net.now)
    net.lost = lambda _one, _other: False
    net.run(40.0)
    assert {
        (each.disk_uuid, each.state) for each in (machine.member(NodeId(3)) for machine in net.machines.values())
    } == {(disk(3, 1), ALIVE)}
