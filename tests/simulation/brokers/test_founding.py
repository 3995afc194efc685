"""Rare sequences of events in the founding of a cluster."""

import contextlib
from dataclasses import replace

from jepsen.simulation.brokers import founding
from jepsen.simulation.brokers.founding import Founding, Member
from jepsen.simulation.outcome import log_to_timeline
from raftlog.errors import Unavailable
from raftlog.raft import Role
from raftlog.runtime.replica.partition_replica import PartitionReplica
from raftlog.types import NodeId

OLD, NEW = NodeId(2), NodeId(4)
WITHIN_S = 20.0


def group_of(site: Founding, number: NodeId) -> PartitionReplica:
    member = site.machines[number].service
    assert member is not None, f"node {number} is down"
    group = member.metadata.group_id and member.node.find_replica(member.metadata.group_id)
    assert group, f"node {number} has no replica"
    return group


def leader_of(site: Founding) -> NodeId | None:
    """Return the leader among the nodes that are not isolated."""
    numbers = [number for number in site.machines if number != OLD and site.machines[number].service]
    return next((number for number in numbers if group_of(site, number).core.role is Role.LEADER), None)


def cut_off(site: Founding, number: NodeId) -> None:
    for other in site.machines.values():
        if other.node_id != number:
            site.network.cut(site.machines[number].node, other.node)
            site.network.cut(other.node, site.machines[number].node)


def hand_over(member: Member, site: Founding) -> None:
    assert member.metadata.group_id is not None
    group = member.node.find_replica(member.metadata.group_id)
    assert group is not None
    with contextlib.suppress(Unavailable):  # the new one lacks an entry just now; asked again
        group.transfer_leadership(group_of(site, NEW).core.status().me)


def test_a_leader_at_an_unknown_address_brings_the_voter_up_to_date() -> None:
    """The voter was isolated when the leader joined, and the log entry with its address is trimmed meanwhile."""
    options = replace(founding.draw(1), seeds=3, joiners=1, spread_s=0.0, snapshot_log_bytes=2_000, drift_ppm=0)
    site = Founding(options)
    with log_to_timeline(site.loop):
        for number, machine in site.machines.items():
            site.loop.call_at_ns(0, site._allocate_ids_later, machine)
            if number != NEW:
                machine.start()
        old, new = site.machines[OLD], site.machines[NEW]
        assert site.loop.run_until(lambda: len(site.serving()) == 3, within_s=WITHIN_S)
        cut_off(site, OLD)
        new.start()
        assert site.loop.run_until(lambda: new.service is not None, within_s=WITHIN_S)
        last = group_of(site, OLD).log.last_index
        assert site.loop.run_until(lambda: _has_trimmed(site, last), within_s=3 * WITHIN_S)
        for _ in range(20):
            leader = leader_of(site)
            if leader not in (None, NEW):
                site.machines[leader].call(lambda member: hand_over(member, site))
                site.loop.run_for(1)
        assert leader_of(site) == NEW
        site.network.heal()
        assert site.loop.run_until(lambda: group_of(site, OLD).applied_index > last, within_s=WITHIN_S)
    assert old.service is not None
    site.close()


def _has_trimmed(site: Founding, index: int) -> bool:
    leader = leader_of(site)
    is_voter = site.machines[NEW].service is not None and group_of(site, NEW).log.boundary.index > index
    return leader is not None and is_voter and len(group_of(site, leader).core.configuration.voters) == 4
