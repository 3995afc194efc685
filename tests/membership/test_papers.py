"""Claims of the papers about the protocol.

Each name has the section of SWIM (Das et al. 2002) or the part of Lifeguard (Dadgar et al. 2018)."""

from dataclasses import replace

import pytest

from raftlog.membership.member import Claim
from raftlog.membership.messages import Ack, Nack, Ping, PingRequest
from raftlog.membership.swim import Swim
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
    sender,
    state_of,
    swim_with_members,
    take_sent,
)


def start_ping(node: int, of: int, *others: int) -> tuple[Swim, Ping]:
    """Return a machine that has just pinged `of`, and the ping."""
    machine = swim_with_members(node, [of, *others], config=STILL)
    machine.probe_now(NodeId(of), 0.0)
    [(to, ping)] = take_sent(machine, Ping)
    assert (to, isinstance(ping, Ping)) == (of, True)
    return machine, ping


def run_probe(machine: Swim, until: float) -> None:
    """Tick at each due time, without answers."""
    while machine.due() <= until:
        machine.tick(machine.due())


# SWIM 3.1: the failure detector


def test_swim_3_1_a_ping_is_answered_with_its_number() -> None:
    machine = swim_with_members(1, [2])
    machine.receive([Ping(77, NodeId(1), disk(1))], sender(2), 0.0)
    assert take_sent(machine, Ack) == [(2, Ack(77))]


def test_swim_3_1_a_ping_for_another_member_is_not_answered() -> None:
    """An address may have a new owner: another node, or the same node on a new disk."""
    machine = swim_with_members(1, [2])
    machine.receive([Ping(77, NodeId(3), disk(3)), Ping(78, NodeId(1), disk(1, 1))], sender(2), 0.0)
    assert take_sent(machine, Ack) == []


def test_swim_3_1_without_an_answer_k_helpers_are_asked() -> None:
    machine, ping = start_ping(1, 2, 3, 4, 5, 6)
    machine.tick(CONFIG.probe_timeout_s)
    requests = take_sent(machine, PingRequest)
    assert len({to for to, _ in requests}) == CONFIG.helpers
    assert all(to not in (1, 2) for to, _ in requests)
    assert {request for _, request in requests} == {PingRequest(ping.sequence, NodeId(2), disk(2), *address(2))}


def test_swim_3_1_no_helper_is_asked_after_an_answer() -> None:
    machine, ping = start_ping(1, 2, 3)
    machine.receive([Ack(ping.sequence)], sender(2), 0.1)
    run_probe(machine, CONFIG.probe_deadline_s)
    assert [request for _, request in take_sent(machine, PingRequest) if request.target == 2] == []
    assert state_of(machine, 2) is ALIVE


def test_swim_3_1_a_helper_pings_and_passes_the_answer_on() -> None:
    helper = swim_with_members(3, [1, 2], config=STILL)
    helper.receive([PingRequest(7, NodeId(2), disk(2), *address(2))], sender(1), 0.0)
    [(to, ping)] = take_sent(helper, Ping)
    assert (to, ping.target) == (2, 2)
    helper.receive([Ack(ping.sequence)], sender(2), 0.1)
    assert take_sent(helper, Ack) == [(1, Ack(7))]


def test_swim_3_1_an_answer_through_a_helper_is_enough() -> None:
    machine, ping = start_ping(1, 2, 3)
    machine.tick(0.3)
    machine.receive([Ack(ping.sequence)], sender(3), 0.5)
    machine.tick(0.7)
    assert state_of(machine, 2) is ALIVE


def test_swim_3_1_a_member_without_any_answer_is_suspected() -> None:
    machine, _ = start_ping(1, 2, 3)
    machine.tick(0.3)
    machine.tick(0.69)
    assert state_of(machine, 2) is ALIVE
    machine.tick(0.7)
    assert state_of(machine, 2) is SUSPECT


def test_swim_3_1_the_load_of_a_member_does_not_grow_with_the_cluster() -> None:
    """A member sends as many pings within ten periods in any cluster."""
    counts = []
    for members in (20, 200):
        machine = swim_with_members(1, range(2, members + 1))
        before = machine.counters().probes
        run_answered_probes(machine, 10.0)
        counts.append(machine.counters().probes - before)
    assert counts[0] == counts[1] <= 11


def run_answered_probes(machine: Swim, until: float) -> None:
    """Tick at each due time, and answer all pings at once."""
    while machine.due() <= until:
        now = machine.due()
        machine.tick(now)
        for to, ping in take_sent(machine, Ping):
            machine.receive([Ack(ping.sequence)], sender(to), now)


# SWIM 3.2 and 4.1: dissemination


def test_swim_3_2_a_dead_member_is_known_to_all() -> None:
    net = GossipNet(1, 2, 3, 4, 5)
    net.kill(4)
    net.run(6.0)
    assert set(net.states(4).values()) == {DEAD}


def test_swim_4_1_news_is_piggybacked_on_pings_and_acks() -> None:
    machine = swim_with_members(1, [2, 3], config=STILL)
    machine.receive([claim(3, ALIVE, first_incarnation(3) + 1)], sender(2), 0.0)
    discard_output(machine)
    machine.receive([Ping(1, NodeId(1), disk(1))], sender(2), 0.0)
    assert (2, claim(3, ALIVE, first_incarnation(3) + 1)) in take_sent(machine, Claim)
    machine.probe_now(NodeId(2), 0.0)
    assert (2, claim(3, ALIVE, first_incarnation(3) + 1)) in take_sent(machine, Claim)


def test_swim_4_1_news_is_sent_lambda_log_n_times() -> None:
    machine = swim_with_members(1, [2, 3], config=STILL)
    told = 0
    for at in range(100):
        machine.receive([Ping(at, NodeId(1), disk(1))], sender(2), 0.0)
        told += len([each for _, each in take_sent(machine, Claim) if each.node_id == 1])
    assert told == CONFIG.retransmits_max(3) == 5
    assert CONFIG.retransmits_max(100) == 17


def test_swim_4_1_every_member_learns_of_a_new_member() -> None:
    net = GossipNet(1, 2, 3, 4, 5)
    net.start(6)
    net.run(2.0)
    assert set(net.states(6).values()) == {ALIVE}


# SWIM 4.2: suspicion


def test_swim_4_2_a_suspect_that_refutes_stays_alive() -> None:
    net = GossipNet(1, 2, 3)
    net.machines[1].receive([claim(3, SUSPECT, first_incarnation(3), by=2, told=False)], sender(2), net.now)
    assert state_of(net.machines[1], 3) is SUSPECT
    net.run(30.0)
    assert set(net.states(3).values()) == {ALIVE}
    assert all(machine.member(NodeId(3)).incarnation == first_incarnation(3) + 1 for machine in net.machines.values())
    assert not [change for change in net.changes if change[3] is DEAD]


def test_swim_4_2_only_the_member_itself_raises_its_incarnation() -> None:
    net = GossipNet(1, 2, 3)
    net.kill(3)
    net.run(30.0)
    assert {machine.member(NodeId(3)).incarnation for machine in net.machines.values()} == {first_incarnation(3)}


def test_swim_4_2_an_old_refutation_clears_no_newer_suspicion() -> None:
    machine = swim_with_members(1, [2, 3], config=STILL)
    machine.receive([claim(2, SUSPECT, first_incarnation(2) + 1, by=3, told=False)], sender(3), 0.0)
    machine.receive([claim(2, ALIVE, first_incarnation(2)), claim(2, ALIVE, first_incarnation(2) + 1)], sender(3), 0.0)
    assert state_of(machine, 2) is SUSPECT
    machine.receive([claim(2, ALIVE, first_incarnation(2) + 2)], sender(3), 0.0)
    assert state_of(machine, 2) is ALIVE


def test_swim_4_2_an_answer_alone_clears_no_suspicion() -> None:
    """The suspicion must be refuted; otherwise the others would keep it."""
    machine = swim_with_members(1, [2, 3], config=STILL)
    machine.receive([claim(2, SUSPECT, first_incarnation(2), by=3, told=False)], sender(3), 0.0)
    [ping] = [each for to, each in take_sent(machine, Ping) if to == 2]
    machine.receive([Ack(ping.sequence)], sender(2), 0.1)
    assert state_of(machine, 2) is SUSPECT


def test_swim_4_2_death_is_final_at_an_incarnation_but_not_for_a_higher_one() -> None:
    machine = swim_with_members(1, [2, 3], config=STILL)
    machine.receive([claim(2, DEAD, first_incarnation(2), told=False)], sender(3), 0.0)
    machine.receive([claim(2, ALIVE, first_incarnation(2))], sender(3), 0.0)
    assert state_of(machine, 2) is DEAD
    machine.receive([claim(2, ALIVE, first_incarnation(2) + 1)], sender(3), 0.0)
    assert state_of(machine, 2) is ALIVE


def test_swim_4_2_a_member_that_learns_of_its_own_death_refutes_it() -> None:
    net = GossipNet(1, 2, 3)
    net.machines[1].receive([claim(3, DEAD, first_incarnation(3), by=2, told=False)], sender(2), net.now)
    net.run(3.0)
    assert set(net.states(3).values()) == {ALIVE}


# SWIM 4.3: round-robin probing (the order itself: test_pieces)


def test_swim_4_3_a_failure_is_found_by_every_member_within_bounded_time() -> None:
    """Time-bounded completeness without gossip: each member detects the failure by its own probes."""
    config = replace(CONFIG, gossip_interval_s=1e6, retransmit_factor=1e-9)
    net = GossipNet(1, 2, 3, 4, 5, 6, config=config)
    net.kill(3)
    members = 6
    net.run((2 * members - 1) * 2 * config.turn_s(members) + config.suspicion_max_s(members) + 2)
    assert set(net.states(3).values()) == {DEAD}


# Lifeguard, LHA-Probe


def test_lifeguard_lha_probe_a_helper_without_an_answer_nacks_in_time() -> None:
    helper = swim_with_members(3, [1, 2], config=STILL)
    helper.receive([PingRequest(7, NodeId(2), disk(2), *address(2))], sender(1), 0.0)
    discard_output(helper)
    helper.tick(0.32)
    assert take_sent(helper, Nack) == [(1, Nack(7))]
    helper.tick(0.5)
    assert take_sent(helper, Nack) == []


def test_lifeguard_lha_probe_an_answer_after_the_nack_still_counts() -> None:
    helper = swim_with_members(3, [1, 2], config=STILL)
    helper.receive([PingRequest(7, NodeId(2), disk(2), *address(2))], sender(1), 0.0)
    [(_, ping)] = take_sent(helper, Ping)
    helper.tick(0.32)
    helper.receive([Ack(ping.sequence)], sender(2), 0.4)
    assert (1, Ack(7)) in take_sent(helper, Ack)


@pytest.mark.parametrize(("nacks", "score"), [(0, 3), (1, 2), (3, 0)])
def test_lifeguard_lha_probe_silent_helpers_worsen_local_health(nacks: int, score: int) -> None:
    machine, ping = start_ping(1, 2, 3, 4, 5)
    machine.tick(0.3)
    for helper in range(3, 3 + nacks):
        machine.receive([Nack(ping.sequence)], sender(helper), 0.65)
    machine.tick(0.7)
    assert machine.counters().awareness == score


def test_lifeguard_lha_probe_an_unhealthy_member_waits_longer_and_probes_more_rarely() -> None:
    machine, _ = start_ping(1, 2, 3, 4, 5)
    machine.tick(0.3)
    machine.tick(0.7)
    assert machine.counters().awareness == 3
    discard_output(machine)
    machine.probe_now(NodeId(3), 1.0)
    discard_output(machine)
    machine.tick(1.0 + 4 * 0.3 - 0.01)
    assert [each for _, each in take_sent(machine, PingRequest) if each.target == 3] == []
    machine.tick(1.0 + 4 * 0.3)
    assert [each for _, each in take_sent(machine, PingRequest) if each.target == 3] != []


def test_lifeguard_lha_probe_each_answer_improves_local_health() -> None:
    machine, _ = start_ping(1, 2, 3, 4, 5)
    machine.tick(0.3)
    machine.tick(0.7)
    discard_output(machine)
    machine.probe_now(NodeId(3), 1.0)
    [ping] = [each for _, each in take_sent(machine, Ping) if each.target == 3]
    machine.receive([Ack(ping.sequence)], sender(3), 1.1)
    assert machine.counters().awareness == 2


def test_lifeguard_lha_probe_being_suspected_worsens_local_health() -> None:
    machine = swim_with_members(1, [2, 3], config=STILL)
    machine.receive([claim(1, SUSPECT, first_incarnation(1), by=2, told=False)], sender(2), 0.0)
    assert (machine.counters().awareness, machine.counters().refutations) == (1, 1)


# Lifeguard, LHA-Suspicion (the formula: test_pieces)


def time_of_death(*accusers: int, others: int = 8) -> float:
    """Return the time at which a suspected member is declared dead, without answers or probes."""
    machine = swim_with_members(1, range(2, 2 + others))
    for accuser in accusers:
        machine.receive([claim(2, SUSPECT, first_incarnation(2), by=accuser, told=False)], sender(accuser), 0.0)
    view = machine._view
    return view.suspicion_due


def test_lifeguard_lha_suspicion_independent_accusers_shorten_a_suspicion() -> None:
    times = [time_of_death(*range(3, 3 + accusers)) for accusers in (1, 2, 3, 4, 5)]
    assert times[0] > times[1] > times[2] > times[3] == times[4]
    assert times[0] == pytest.approx(CONFIG.suspicion_max_s(9))
    assert times[3] == pytest.approx(CONFIG.suspicion_min_s(9))


def test_lifeguard_lha_suspicion_wanted_confirmations_are_bounded_by_the_members() -> None:
    """Two of three members can accuse the third: the second accuser is the last possible one."""
    assert time_of_death(3, 1, others=2) == pytest.approx(CONFIG.suspicion_min_s(3))


def test_lifeguard_lha_suspicion_confirmations_are_gossiped() -> None:
    machine = swim_with_members(1, [2, 3, 4, 5, 6, 7, 8])
    for accuser in (3, 4):
        machine.receive([claim(2, SUSPECT, first_incarnation(2), by=accuser, told=False)], sender(accuser), 0.0)
    discard_output(machine)
    machine.receive([Ping(1, NodeId(1), disk(1))], sender(5), 0.0)
    assert (5, claim(2, SUSPECT, first_incarnation(2), by=4, told=False)) in take_sent(machine, Claim)


def test_lifeguard_lha_suspicion_a_member_that_learns_of_a_suspicion_probes() -> None:
    machine = swim_with_members(1, [2, 3, 4])
    machine.receive([claim(2, SUSPECT, first_incarnation(2), by=3, told=False)], sender(3), 0.0)
    assert [to for to, _ in take_sent(machine, Ping)] == [2]


# Lifeguard, the buddy system


def test_lifeguard_buddy_system_a_ping_informs_the_suspect() -> None:
    machine = swim_with_members(1, [2, 3], config=STILL)
    machine.receive([claim(2, SUSPECT, first_incarnation(2), by=3, told=False)], sender(3), 0.0)
    for turn in range(100):
        for to, ping in take_pings(machine, claim(2, SUSPECT, first_incarnation(2), by=3, told=False)):
            assert to == 2
            machine.receive([Ack(ping.sequence)], sender(2), float(turn))
        machine.probe_now(NodeId(2), float(turn))


def take_pings(machine: Swim, told: Claim) -> list[tuple[int, Ping]]:
    """Take all messages to send; return the pings, and check that each carries the claim."""
    sends = machine.take_sends()
    assert all(told in send.messages for send in sends if isinstance(send.messages[0], Ping))
    pings = [(send.address.port - 7000, send.messages[0]) for send in sends if isinstance(send.messages[0], Ping)]
    assert len(pings) == 1
    return pings


def test_lifeguard_buddy_system_an_ack_informs_the_suspect() -> None:
    machine = swim_with_members(1, [2, 3], config=STILL)
    machine.receive([claim(2, DEAD, first_incarnation(2), by=3, told=False)], sender(3), 0.0)
    discard_output(machine)
    machine.receive([Ping(5, NodeId(1), disk(1))], sender(2), 0.0)
    assert (2, claim(2, DEAD, first_incarnation(2), by=1, told=False)) in take_sent(machine, Claim)


def test_lifeguard_buddy_system_the_suspect_refutes_to_its_informant() -> None:
    machine = swim_with_members(1, [2, 3], config=STILL)
    machine.receive([claim(1, SUSPECT, first_incarnation(1), by=3, told=False)], sender(2), 0.0)
    assert (2, claim(1, ALIVE, first_incarnation(1) + 1, by=1)) in take_sent(machine, Claim)


def test_old_claims_do_not_revive_a_member_that_left() -> None:
    net = GossipNet(1, 2, 3)
    net.machines[3].leave(net.now)
    net.run(0.5)
    net.kill(3)
    net.machines[1].receive(
        [claim(3, ALIVE, first_incarnation(3)), claim(3, DEAD, first_incarnation(3))], sender(2), net.now
    )
    net.run(10.0)
    assert set(net.states(3).values()) == {LEFT}
