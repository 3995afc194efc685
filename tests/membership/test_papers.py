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
    Net,
    address,
    claim,
    disk,
    drop,
    first,
    knowing,
    sender,
    sent,
    state_of,
)


def doubting(node: int, of: int, *others: int) -> tuple[Swim, Ping]:
    """Return a machine that has just pinged `of`, and the ping."""
    machine = knowing(node, [of, *others], config=STILL)
    machine.probe_now(NodeId(of), 0.0)
    [(to, ping)] = sent(machine, Ping)
    assert (to, isinstance(ping, Ping)) == (of, True)
    return machine, ping


def run_probe(machine: Swim, until: float) -> None:
    """Tick at each time that is due, without answers."""
    while machine.due() <= until:
        machine.tick(machine.due())


# SWIM 3.1: the failure detector


def test_swim_3_1_a_ping_is_answered_with_its_number() -> None:
    machine = knowing(1, [2])
    machine.receive([Ping(77, NodeId(1), disk(1))], sender(2), 0.0)
    assert sent(machine, Ack) == [(2, Ack(77))]


def test_swim_3_1_a_ping_for_another_member_is_not_answered() -> None:
    """An address may have a new tenant: another node, or the same on a new disk."""
    machine = knowing(1, [2])
    machine.receive([Ping(77, NodeId(3), disk(3)), Ping(78, NodeId(1), disk(1, 1))], sender(2), 0.0)
    assert sent(machine, Ack) == []


def test_swim_3_1_without_an_answer_k_others_are_asked() -> None:
    machine, ping = doubting(1, 2, 3, 4, 5, 6)
    machine.tick(CONFIG.probe_timeout_s)
    requests = sent(machine, PingRequest)
    assert len({to for to, _ in requests}) == CONFIG.helpers
    assert all(to not in (1, 2) for to, _ in requests)
    assert {request for _, request in requests} == {PingRequest(ping.sequence, NodeId(2), disk(2), *address(2))}


def test_swim_3_1_no_others_are_asked_when_the_answer_comes() -> None:
    machine, ping = doubting(1, 2, 3)
    machine.receive([Ack(ping.sequence)], sender(2), 0.1)
    run_probe(machine, CONFIG.probe_deadline_s)
    assert [request for _, request in sent(machine, PingRequest) if request.target == 2] == []
    assert state_of(machine, 2) is ALIVE


def test_swim_3_1_a_helper_pings_and_passes_the_answer_on() -> None:
    helper = knowing(3, [1, 2], config=STILL)
    helper.receive([PingRequest(7, NodeId(2), disk(2), *address(2))], sender(1), 0.0)
    [(to, ping)] = sent(helper, Ping)
    assert (to, ping.target) == (2, 2)
    helper.receive([Ack(ping.sequence)], sender(2), 0.1)
    assert sent(helper, Ack) == [(1, Ack(7))]


def test_swim_3_1_an_answer_by_a_helper_is_enough() -> None:
    machine, ping = doubting(1, 2, 3)
    machine.tick(0.3)
    machine.receive([Ack(ping.sequence)], sender(3), 0.5)
    machine.tick(0.7)
    assert state_of(machine, 2) is ALIVE


def test_swim_3_1_without_any_answer_it_is_suspected() -> None:
    machine, _ = doubting(1, 2, 3)
    machine.tick(0.3)
    machine.tick(0.69)
    assert state_of(machine, 2) is ALIVE
    machine.tick(0.7)
    assert state_of(machine, 2) is SUSPECT


def test_swim_3_1_the_load_of_a_member_does_not_grow_with_the_cluster() -> None:
    """Pings that one member sends within ten periods."""
    counts = []
    for members in (20, 200):
        machine = knowing(1, range(2, members + 1))
        before = machine.counters().probes
        run_turns(machine, 10.0)
        counts.append(machine.counters().probes - before)
    assert counts[0] == counts[1] <= 11


def run_turns(machine: Swim, until: float) -> None:
    """Run probes that are all answered at once."""
    while machine.due() <= until:
        now = machine.due()
        machine.tick(now)
        for to, ping in sent(machine, Ping):
            machine.receive([Ack(ping.sequence)], sender(to), now)


# SWIM 3.2 and 4.1: dissemination


def test_swim_3_2_a_dead_member_is_known_to_all() -> None:
    net = Net(1, 2, 3, 4, 5)
    net.kill(4)
    net.run(6.0)
    assert set(net.states(4).values()) == {DEAD}


def test_swim_4_1_news_rides_on_pings_and_acks() -> None:
    machine = knowing(1, [2, 3], config=STILL)
    machine.receive([claim(3, ALIVE, first(3) + 1)], sender(2), 0.0)
    drop(machine)
    machine.receive([Ping(1, NodeId(1), disk(1))], sender(2), 0.0)
    assert (2, claim(3, ALIVE, first(3) + 1)) in sent(machine, Claim)
    machine.probe_now(NodeId(2), 0.0)
    assert (2, claim(3, ALIVE, first(3) + 1)) in sent(machine, Claim)


def test_swim_4_1_news_is_given_up_after_lambda_log_n_times() -> None:
    machine = knowing(1, [2, 3], config=STILL)
    told = 0
    for at in range(100):
        machine.receive([Ping(at, NodeId(1), disk(1))], sender(2), 0.0)
        told += len([each for _, each in sent(machine, Claim) if each.node_id == 1])
    assert told == CONFIG.retransmits_max(3) == 5
    assert CONFIG.retransmits_max(100) == 17


def test_swim_4_1_every_member_learns_of_a_new_one() -> None:
    net = Net(1, 2, 3, 4, 5)
    net.start(6)
    net.run(2.0)
    assert set(net.states(6).values()) == {ALIVE}


# SWIM 4.2: suspicion


def test_swim_4_2_a_suspect_that_refutes_stays() -> None:
    net = Net(1, 2, 3)
    net.machines[1].receive([claim(3, SUSPECT, first(3), by=2, told=False)], sender(2), net.now)
    assert state_of(net.machines[1], 3) is SUSPECT
    net.run(30.0)
    assert set(net.states(3).values()) == {ALIVE}
    assert all(machine.member(NodeId(3)).incarnation == first(3) + 1 for machine in net.machines.values())
    assert not [change for change in net.changes if change[3] is DEAD]


def test_swim_4_2_only_the_member_itself_raises_its_incarnation() -> None:
    net = Net(1, 2, 3)
    net.kill(3)
    net.run(30.0)
    assert {machine.member(NodeId(3)).incarnation for machine in net.machines.values()} == {first(3)}


def test_swim_4_2_an_old_refutation_clears_no_newer_suspicion() -> None:
    machine = knowing(1, [2, 3], config=STILL)
    machine.receive([claim(2, SUSPECT, first(2) + 1, by=3, told=False)], sender(3), 0.0)
    machine.receive([claim(2, ALIVE, first(2)), claim(2, ALIVE, first(2) + 1)], sender(3), 0.0)
    assert state_of(machine, 2) is SUSPECT
    machine.receive([claim(2, ALIVE, first(2) + 2)], sender(3), 0.0)
    assert state_of(machine, 2) is ALIVE


def test_swim_4_2_an_answer_alone_clears_no_suspicion() -> None:
    """The suspicion must be refuted; otherwise the others would keep it."""
    machine = knowing(1, [2, 3], config=STILL)
    machine.receive([claim(2, SUSPECT, first(2), by=3, told=False)], sender(3), 0.0)
    [ping] = [each for to, each in sent(machine, Ping) if to == 2]
    machine.receive([Ack(ping.sequence)], sender(2), 0.1)
    assert state_of(machine, 2) is SUSPECT


def test_swim_4_2_death_is_final_at_an_incarnation_but_not_for_a_higher_one() -> None:
    machine = knowing(1, [2, 3], config=STILL)
    machine.receive([claim(2, DEAD, first(2), told=False)], sender(3), 0.0)
    machine.receive([claim(2, ALIVE, first(2))], sender(3), 0.0)
    assert state_of(machine, 2) is DEAD
    machine.receive([claim(2, ALIVE, first(2) + 1)], sender(3), 0.0)
    assert state_of(machine, 2) is ALIVE


def test_swim_4_2_a_member_that_learns_of_its_own_death_refutes_it() -> None:
    net = Net(1, 2, 3)
    net.machines[1].receive([claim(3, DEAD, first(3), by=2, told=False)], sender(2), net.now)
    net.run(3.0)
    assert set(net.states(3).values()) == {ALIVE}


# SWIM 4.3: round-robin probing (the order itself: test_pieces)


def test_swim_4_3_a_failure_is_found_by_every_member_within_bounded_time() -> None:
    """Time-bounded completeness, without any gossip: each member detects the failure by its own probes."""
    config = replace(CONFIG, gossip_interval_s=1e6, retransmit_factor=1e-9)
    net = Net(1, 2, 3, 4, 5, 6, config=config)
    net.kill(3)
    members = 6
    net.run((2 * members - 1) * 2 * config.turn_s(members) + config.suspicion_max_s(members) + 2)
    assert set(net.states(3).values()) == {DEAD}


# Lifeguard, LHA-Probe


def test_lifeguard_lha_probe_a_helper_without_an_answer_nacks_in_time() -> None:
    helper = knowing(3, [1, 2], config=STILL)
    helper.receive([PingRequest(7, NodeId(2), disk(2), *address(2))], sender(1), 0.0)
    drop(helper)
    helper.tick(0.32)
    assert sent(helper, Nack) == [(1, Nack(7))]
    helper.tick(0.5)
    assert sent(helper, Nack) == []


def test_lifeguard_lha_probe_an_answer_after_the_nack_still_counts() -> None:
    helper = knowing(3, [1, 2], config=STILL)
    helper.receive([PingRequest(7, NodeId(2), disk(2), *address(2))], sender(1), 0.0)
    [(_, ping)] = sent(helper, Ping)
    helper.tick(0.32)
    helper.receive([Ack(ping.sequence)], sender(2), 0.4)
    assert (1, Ack(7)) in sent(helper, Ack)


@pytest.mark.parametrize(("nacks", "score"), [(0, 3), (1, 2), (3, 0)])
def test_lifeguard_lha_probe_silent_helpers_worsen_local_health(nacks: int, score: int) -> None:
    machine, ping = doubting(1, 2, 3, 4, 5)
    machine.tick(0.3)
    for helper in range(3, 3 + nacks):
        machine.receive([Nack(ping.sequence)], sender(helper), 0.65)
    machine.tick(0.7)
    assert machine.counters().awareness == score


def test_lifeguard_lha_probe_an_unhealthy_member_waits_longer_and_probes_more_rarely() -> None:
    machine, _ = doubting(1, 2, 3, 4, 5)
    machine.tick(0.3)
    machine.tick(0.7)
    assert machine.counters().awareness == 3
    drop(machine)
    machine.probe_now(NodeId(3), 1.0)
    drop(machine)
    machine.tick(1.0 + 4 * 0.3 - 0.01)
    assert [each for _, each in sent(machine, PingRequest) if each.target == 3] == []
    machine.tick(1.0 + 4 * 0.3)
    assert [each for _, each in sent(machine, PingRequest) if each.target == 3] != []


def test_lifeguard_lha_probe_each_answer_makes_it_better() -> None:
    machine, _ = doubting(1, 2, 3, 4, 5)
    machine.tick(0.3)
    machine.tick(0.7)
    drop(machine)
    machine.probe_now(NodeId(3), 1.0)
    [ping] = [each for _, each in sent(machine, Ping) if each.target == 3]
    machine.receive([Ack(ping.sequence)], sender(3), 1.1)
    assert machine.counters().awareness == 2


def test_lifeguard_lha_probe_to_be_suspected_is_a_sign_against_us() -> None:
    machine = knowing(1, [2, 3], config=STILL)
    machine.receive([claim(1, SUSPECT, first(1), by=2, told=False)], sender(2), 0.0)
    assert (machine.counters().awareness, machine.counters().refutations) == (1, 1)


# Lifeguard, LHA-Suspicion (the formula: test_pieces)


def dies_at(*accusers: int, others: int = 8) -> float:
    """Return the time at which a member suspected by these is declared dead, without answers or probes."""
    machine = knowing(1, range(2, 2 + others))
    for accuser in accusers:
        machine.receive([claim(2, SUSPECT, first(2), by=accuser, told=False)], sender(accuser), 0.0)
    view = machine._view
    return view.suspicion_due


def test_lifeguard_lha_suspicion_independent_accusers_shorten_it() -> None:
    times = [dies_at(*range(3, 3 + accusers)) for accusers in (1, 2, 3, 4, 5)]
    assert times[0] > times[1] > times[2] > times[3] == times[4]
    assert times[0] == pytest.approx(CONFIG.suspicion_max_s(9))
    assert times[3] == pytest.approx(CONFIG.suspicion_min_s(9))


def test_lifeguard_lha_suspicion_no_more_are_wanted_than_can_be_had() -> None:
    """Two of three members can accuse the third: the second accuser is the last possible one."""
    assert dies_at(3, 1, others=2) == pytest.approx(CONFIG.suspicion_min_s(3))


def test_lifeguard_lha_suspicion_confirmations_are_gossiped() -> None:
    machine = knowing(1, [2, 3, 4, 5, 6, 7, 8])
    for accuser in (3, 4):
        machine.receive([claim(2, SUSPECT, first(2), by=accuser, told=False)], sender(accuser), 0.0)
    drop(machine)
    machine.receive([Ping(1, NodeId(1), disk(1))], sender(5), 0.0)
    assert (5, claim(2, SUSPECT, first(2), by=4, told=False)) in sent(machine, Claim)


def test_lifeguard_lha_suspicion_a_member_that_learns_of_it_probes_too() -> None:
    machine = knowing(1, [2, 3, 4])
    machine.receive([claim(2, SUSPECT, first(2), by=3, told=False)], sender(3), 0.0)
    assert [to for to, _ in sent(machine, Ping)] == [2]


# Lifeguard, the buddy system


def test_lifeguard_buddy_system_a_ping_informs_the_suspect() -> None:
    machine = knowing(1, [2, 3], config=STILL)
    machine.receive([claim(2, SUSPECT, first(2), by=3, told=False)], sender(3), 0.0)
    for turn in range(100):
        for to, ping in pings_with(machine, claim(2, SUSPECT, first(2), by=3, told=False)):
            assert to == 2
            machine.receive([Ack(ping.sequence)], sender(2), float(turn))
        machine.probe_now(NodeId(2), float(turn))


def pings_with(machine: Swim, told: Claim) -> list[tuple[int, Ping]]:
    """Return all pings to be sent; check that each carries that claim."""
    sends = machine.take_sends()
    assert all(told in send.messages for send in sends if isinstance(send.messages[0], Ping))
    pings = [(send.address.port - 7000, send.messages[0]) for send in sends if isinstance(send.messages[0], Ping)]
    assert len(pings) == 1
    return pings


def test_lifeguard_buddy_system_so_does_an_ack() -> None:
    machine = knowing(1, [2, 3], config=STILL)
    machine.receive([claim(2, DEAD, first(2), by=3, told=False)], sender(3), 0.0)
    drop(machine)
    machine.receive([Ping(5, NodeId(1), disk(1))], sender(2), 0.0)
    assert (2, claim(2, DEAD, first(2), by=1, told=False)) in sent(machine, Claim)


def test_lifeguard_buddy_system_the_suspect_refutes_to_its_informant() -> None:
    machine = knowing(1, [2, 3], config=STILL)
    machine.receive([claim(1, SUSPECT, first(1), by=3, told=False)], sender(2), 0.0)
    assert (2, claim(1, ALIVE, first(1) + 1, by=1)) in sent(machine, Claim)


def test_a_member_that_left_is_not_brought_back_by_old_news() -> None:
    net = Net(1, 2, 3)
    net.machines[3].leave(net.now)
    net.run(0.5)
    net.kill(3)
    net.machines[1].receive([claim(3, ALIVE, first(3)), claim(3, DEAD, first(3))], sender(2), net.now)
    net.run(10.0)
    assert set(net.states(3).values()) == {LEFT}
