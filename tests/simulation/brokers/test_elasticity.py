"""Requests of operators to a simulated cluster are executed or refused; checkers detect one that is not."""

from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from typing import Any

import pytest

from jepsen.simulation.brokers.cluster import Machine
from jepsen.simulation.brokers.elasticity import NONE, Elasticity, Order
from jepsen.simulation.brokers.final_orders import FinalRequests
from jepsen.simulation.brokers.options import GossipOptions
from jepsen.simulation.brokers.workload.operators import AcceptedRequests
from jepsen.simulation.verdicts import PropertyBroken
from raftlog.partitions.broker import Broker
from raftlog.partitions.controller.machine import GroupName
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.operations.brokers import BrokerOperations
from tests.simulation.brokers.at_work import World

ELASTIC = replace(NONE, orders=(Order.MOVE,), quiet_s=5.0)
"""Orders are in it, and no operator gives any but the test."""
AMBUSHES = 3
"""Faults at leaders that change a Raft configuration, after which the cluster has to converge."""
Do = Callable[[Broker], Coroutine[Any, Any, object]]


@pytest.fixture
def begin() -> Iterator[Callable[..., World]]:
    """Return a function that makes worlds, which are closed at the end."""
    begun: list[World] = []

    def make(elasticity: Elasticity = ELASTIC, **changes: Any) -> World:
        begun.append(World(elasticity=elasticity, **changes))
        return begun[-1]

    yield make
    for world in begun:
        world.cluster.close()


def request_until_answered(world: World, work: Do) -> None:
    """Repeat the request at broker 1 until it is answered."""
    done: list[object] = []

    async def request(broker: Broker) -> None:
        done.append(await work(broker))

    world.machine(1).spawn(request, "a test")
    assert world.cluster.loop.run_until(lambda: bool(done), within_s=10), world.timeline()


def remove_broker(world: World, number: int) -> Machine:
    """Decommission a broker, wait until it stopped, and return its machine."""
    machine = world.machine(number)

    def are_all_registered() -> bool:
        return len(world.cluster.newest_state().brokers) == len(world.cluster.machines)

    assert world.cluster.loop.run_until(are_all_registered, within_s=60), world.timeline()
    request_until_answered(
        world, lambda broker: broker.operations.brokers.decommission(number, deadline=deadline_in(5_000))
    )
    assert world.cluster.loop.run_until(lambda: world.cluster.is_removed(machine), within_s=60), world.timeline()
    return machine


def test_a_broker_joins_late_and_a_removed_one_is_refused(begin: Callable[..., World]) -> None:
    world = begin(replace(ELASTIC, late_joiners=1))
    machine = remove_broker(world, 2)
    starts = machine.node.starts
    assert world.cluster.loop.run_until(lambda: machine.node.starts > starts, within_s=10)
    assert world.cluster.loop.run_until(lambda: machine.node.process is None, within_s=30)
    assert machine not in world.cluster.members()
    world.converge()
    assert "was removed from the cluster" in str(machine.end)
    assert [each.node_id for each in world.cluster.newest_state().all_brokers()] == [1, 3, 4]


@pytest.mark.slow
def test_a_removed_broker_can_return_with_an_empty_disk(begin: Callable[..., World]) -> None:
    world = begin(replace(ELASTIC, late_joiners=1, returns=1.0))
    machine = remove_broker(world, 2)
    before = machine.replica
    assert world.cluster.loop.run_until(lambda: machine.service is not None and machine.replica != before, within_s=30)
    world.converge()
    assert [each.node_id for each in world.cluster.newest_state().all_brokers()] == [1, 2, 3, 4]


@pytest.mark.slow
def test_a_broker_removed_before_it_serves_is_not_waited_for(begin: Callable[..., World]) -> None:
    """Its disk may also have been an empty one that replaced another."""
    world = begin(replace(ELASTIC, late_joiners=1, returns=1.0))
    machine = remove_broker(world, 2)

    def is_registered() -> bool:
        broker = world.cluster.newest_state().brokers.get(machine.node_id)
        return broker is not None and broker.disk_uuid in machine.disk_uuids

    assert world.cluster.loop.run_until(is_registered, within_s=30)
    assert machine.service is None
    world.nemesis.faults.absent_until_ns[machine.node_id] = 1 << 62
    if machine.node.process is not None:
        machine.crash()
    assert not world.cluster.is_removed(machine)
    request_until_answered(world, lambda broker: broker.operations.brokers.decommission(2, deadline=deadline_in(5_000)))
    assert world.cluster.loop.run_until(lambda: world.cluster.is_removed(machine), within_s=60), world.timeline()
    world.converge()
    assert [each.node_id for each in world.cluster.newest_state().all_brokers()] == [1, 3, 4]


def test_a_needed_broker_stays_and_the_reason_is_reported(
    begin: Callable[..., World], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = begin()
    request_until_answered(world, lambda broker: broker.operations.brokers.decommission(3, deadline=deadline_in(5_000)))
    status = BrokerOperations.decommission_status

    async def say_nothing(self: BrokerOperations, *args: Any, **options: Any) -> Any:
        return (await status(self, *args, **options)).copy_with(reason=None, allocation_failures=())

    monkeypatch.setattr(BrokerOperations, "decommission_status", say_nothing)
    with pytest.raises(PropertyBroken, match="stuck-in-silence"):
        world.converge()


def test_a_move_continues_after_faults_at_its_leader(begin: Callable[..., World]) -> None:
    world = begin(replace(ELASTIC, late_joiners=1, ambushes=1.0))
    for _ in range(60):
        world.cluster.loop.run_for(1)
        if world.timeline().count("an ambush: it changes a Raft configuration") >= AMBUSHES:
            break
    else:
        pytest.fail("leaders changed too few Raft configurations")
    world.converge()


def test_brokers_gossip_and_rejoin_each_other(begin: Callable[..., World]) -> None:
    world = begin(NONE, gossip=GossipOptions(shares_cuts=True, interference=0.2, loss=0.05))
    world.machine(3).crash()
    world.nemesis.faults.absent_until_ns[world.machine(3).node_id] = 1 << 62

    def dead() -> bool:
        service = world.machine(1).service
        return service is not None and service.parts.gossip.members()[2].state == "dead"

    assert world.cluster.loop.run_until(dead, within_s=30)
    world.converge()
    assert not dead()


def test_a_lost_request_is_detected(begin: Callable[..., World]) -> None:
    world = begin()
    state = world.cluster.newest_state()
    name = GroupName(state.topic("topic-0").topic_id, 0)
    taken = AcceptedRequests()
    taken.record_assignment(name, state.assignment(name).version)
    taken.check(state)
    taken.record_assignment(name, state.assignment(name).version + 1)
    with pytest.raises(PropertyBroken, match="order-lost"):
        taken.check(state)


def _never(_bound_s: float, _name: str, _missing: Callable[[], list[str]]) -> None:
    raise AssertionError


def test_changes_of_leaders_in_quiet_times_are_detected(begin: Callable[..., World]) -> None:
    world = begin()
    settling = FinalRequests(world.cluster, AcceptedRequests(), _never)
    assert settling._changes_within(3.0) == []
    state = world.cluster.newest_state()
    leading = world.cluster.leader(GroupName(state.topic("topic-0").topic_id, 0).group_id.bytes)
    assert leading is not None
    leading[0].crash()
    assert any("topic-0/0" in text for text in settling._changes_within(6.0))
