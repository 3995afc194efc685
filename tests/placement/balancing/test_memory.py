"""State of the balancer about brokers and partitions during its tenure; conditions to remove a broker."""

import pytest

from raftlog.partitions.controller.machine import GroupName as Name
from raftlog.partitions.controller.machine import RegisteredBroker, SetMaintenance, UpdateBroker
from raftlog.partitions.placement.balancing.availability import SETTLE_S, Availability
from raftlog.partitions.placement.balancing.broker_removal import may_remove
from raftlog.partitions.placement.balancing.progress import HeldReplicas, MovingPartition, summed
from raftlog.partitions.placement.balancing.report import BalancerSettings
from raftlog.partitions.placement.balancing.tenure import (
    KEEP_PLACED_S,
    MOVES_STARTED_AT_ONCE,
    MOVES_STARTED_PER_S,
    SILENT_S,
    STUCK_S,
    Tenure,
)
from raftlog.types import NodeId
from tests.placement.balancing.cluster import TOPIC, Controller, replica

FIRST, SECOND = Name(TOPIC, 0), Name(TOPIC, 1)
SETTINGS = BalancerSettings()


def held_replicas(
    held: int = 0,
    moving: dict[Name, MovingPartition] | None = None,
    arrived: tuple[Name, ...] = (),
    led: bytes = b"",
    *,
    is_settled: bool = True,
) -> HeldReplicas:
    found = {name.group_id.bytes: way for name, way in (moving or {}).items()}
    return HeldReplicas(held, found, [name.group_id.bytes for name in arrived], led, is_settled)


# availability


def test_a_broker_is_available_after_a_time_of_heartbeats() -> None:
    there = Availability()
    for at in (0.0, 1.0, 2.0):
        there.record({1: True}, at)
        assert not there.is_available(1, at)
    there.record({1: True}, SETTLE_S)
    assert there.is_available(1, SETTLE_S)
    there.record({1: False}, 4.0)
    assert not there.is_available(1, 4.0)
    there.record({1: True}, 5.0)
    assert not there.is_available(1, 5.0), "it has to be there for as long again"


def test_a_silent_broker_is_absent_since_the_beginning_of_the_leadership() -> None:
    there = Availability()
    for at in range(100, 110):
        there.record({1: False, 2: True}, float(at))
    assert there.silent_s(1, 110.0) == 10.0
    assert there.silent_s(2, 110.0) == 0.0
    assert there.silent_s(3, 110.0) == 0.0


def test_a_pause_of_the_observer_does_not_count_as_absence() -> None:
    there = Availability()
    there.record({1: True}, 0.0)
    there.record({1: False}, 1.0)
    there.record({1: False}, 1_000.0)
    assert there.silent_s(1, 1_000.0) <= 1.0
    there.record({}, 1_001.0)
    there.record({1: False}, 1_002.0)
    assert there.silent_s(1, 1_002.0) == 0.0, "another broker of the same node id begins anew"


# partitions on their way


def test_a_partition_is_moving_until_a_leader_reports_its_arrival() -> None:
    controller, tenure = Controller(), Tenure(1, 0.0)
    tenure.record_submission(FIRST, [NodeId(4)], 0.0)
    tenure.apply_reports({NodeId(1): held_replicas(), NodeId(2): None}, controller.state, 1.0)
    assert list(tenure.running_moves) == [FIRST]
    assert tenure.unanswered == [2]
    tenure.apply_reports(
        {NodeId(1): held_replicas(moving={SECOND: MovingPartition((NodeId(4),), ())})}, controller.state, 2.0
    )
    assert list(tenure.running_moves) == [FIRST, SECOND]
    tenure.apply_reports({NodeId(2): held_replicas(arrived=(FIRST,))}, controller.state, 3.0)
    assert list(tenure.running_moves) == [SECOND]


def test_a_waiting_move_delays_no_other() -> None:
    controller, tenure = Controller(), Tenure(1, 0.0)
    heard = {1: True, 2: True, 3: True, 4: True}
    tenure.availability.record(heard, 0.0)
    tenure.apply_reports(
        {NodeId(1): held_replicas(moving={FIRST: MovingPartition((NodeId(4),), ())})}, controller.state, 0.0
    )
    assert tenure.under_way(0.0) == 1
    assert not tenure.waits(controller.state, 0.0)
    tenure.availability.record({**heard, 4: False}, 1.0)
    assert tenure.under_way(1.0) == 0
    assert tenure.waits(controller.state, 1.0) == {"waits for node 4, which was not heard for 1 s": ["t/0"]}
    tenure.availability.record(heard, 2.0)
    tenure.record_full([NodeId(4)], 2.0)
    assert tenure.under_way(2.0) == 0
    assert tenure.waits(controller.state, 2.0) == {"waits for node 4, whose disk has no room": ["t/0"]}
    tenure.record_full([], 2.0)
    assert tenure.under_way(2.0) == 1
    assert tenure.under_way(SILENT_S) == 0
    assert tenure.waits(controller.state, SILENT_S) == {"no leader reports the progress of the move": ["t/0"]}


def test_the_rate_of_started_moves_is_bounded() -> None:
    tenure = Tenure(1, 0.0)
    assert tenure.startable_moves(16, 0.0) == 0
    assert tenure.startable_moves(16, 0.125) == MOVES_STARTED_PER_S / 8
    tenure.count_move_start()
    assert tenure.startable_moves(16, 0.125) == MOVES_STARTED_PER_S / 8 - 1
    assert tenure.startable_moves(16, 100.0) == MOVES_STARTED_AT_ONCE, "a pause is not made up for at once"
    tenure.record_submission(FIRST, [], 100.0)
    assert tenure.startable_moves(1, 100.0) == 0, "no more than there can be under way"


def test_a_broker_in_maintenance_is_not_lost() -> None:
    controller, tenure = Controller(), Tenure(1, 0.0)
    controller.apply(SetMaintenance(NodeId(4), replica(4).disk_uuid, True))
    for at in range(2_000):
        tenure.availability.record({1: True, 2: True, 3: False, 4: False}, float(at))
    there = {place.replica.node_id: place for place in tenure.places(controller.state, [NodeId(2)], SETTINGS, 2_000.0)}
    assert [node for node, place in there.items() if place.is_lost] == [3]
    assert [node for node, place in there.items() if place.in_maintenance] == [4]
    assert [node for node, place in there.items() if place.takes_replicas] == [1], "2 has no room"
    never = SETTINGS._replace(repair_after_s=None)
    assert not any(place.is_lost for place in tenure.places(controller.state, [], never, 2_000.0))


def test_a_move_to_a_stopped_target_is_cancelled_after_a_time() -> None:
    controller, tenure = Controller(), Tenure(1, 0.0)
    controller.assign(FIRST, 1, 2, 4)
    way = {NodeId(1): held_replicas(moving={FIRST: MovingPartition((NodeId(4),), (NodeId(3),))})}
    for at in range(int(STUCK_S) + 1):
        tenure.availability.record({1: True, 2: True, 3: True, 4: False}, float(at))
        tenure.apply_reports(way, controller.state, float(at))
        first, second = tenure.placed(controller.state, SETTINGS, float(at))
        assert first.is_busy == (at < STUCK_S)
        assert not second.is_busy
    assert first.stuck == (4,)
    assert first.former == (3,)


def test_a_move_to_a_full_disk_is_cancelled_after_a_time() -> None:
    controller, tenure = Controller(), Tenure(1, 0.0)
    controller.assign(FIRST, 1, 2, 4)
    way = {NodeId(1): held_replicas(moving={FIRST: MovingPartition((NodeId(4),), (NodeId(3),))})}
    for at in range(2 * int(STUCK_S)):
        tenure.availability.record({1: True, 2: True, 3: True, 4: True}, float(at))
        tenure.record_full([] if at == 9 else [NodeId(4)], float(at))
        tenure.apply_reports(way, controller.state, float(at))
        first, _ = tenure.placed(controller.state, SETTINGS, float(at))
        assert first.is_busy == (at < 10 + STUCK_S)
        assert first.stuck == (() if first.is_busy else (4,))


# who has placed a partition


def test_replicas_placed_by_a_request_stay_and_those_of_the_balancer_do_not() -> None:
    controller, tenure = Controller(), Tenure(1, 0.0)
    controller.assign(SECOND, 1, 2, 4)

    def recently_placed(now: float) -> list[bool]:
        tenure.record_environment(controller.state, now)
        return [each.is_recently_placed for each in tenure.placed(controller.state, SETTINGS, now)]

    assert recently_placed(0.0) == [False, False], "a new tenure has no record of earlier requests"
    tenure.record_ordered(FIRST, controller.assign(FIRST, 2, 1, 4))
    assert recently_placed(1.0) == [False, False]
    controller.assign(FIRST, 1, 2, 3)
    assert recently_placed(2.0) == [True, False]
    assert recently_placed(1.0 + KEEP_PLACED_S) == [True, False]
    assert recently_placed(2.0 + KEEP_PLACED_S) == [False, False]


def test_the_cluster_is_calm_after_a_time_without_changes() -> None:
    controller, tenure = Controller(), Tenure(1, 0.0)
    tenure.record_environment(controller.state, 0.0)
    tenure.record_environment(controller.state, SETTLE_S)
    assert tenure.is_stable(SETTLE_S)
    controller.drain(3)
    tenure.record_environment(controller.state, 10.0)
    assert not tenure.is_stable(11.0)
    for at in range(11, 80):  # something happens all the time
        controller.apply(UpdateBroker(NodeId(3), replica(3).disk_uuid, at % 2 == 0))
        tenure.record_environment(controller.state, float(at))
    assert tenure.is_stable(80.0), "and then it is not waited for any longer"


# removal


@pytest.fixture
def drained_broker() -> tuple[Controller, RegisteredBroker]:
    """Return a controller state, and its broker that is decommissioned and has no replicas."""
    controller = Controller()
    return controller, controller.drain(4)


def test_a_broker_is_removed_when_its_process_reports_no_replicas(
    drained_broker: tuple[Controller, RegisteredBroker],
) -> None:
    controller, broker = drained_broker
    there = {NodeId(1): held_replicas(3), NodeId(4): held_replicas(0)}
    assert may_remove(broker, controller.state, there, [replica(1)], is_settled=True)
    assert not may_remove(
        broker, controller.state, {**there, NodeId(4): held_replicas(1)}, [replica(1)], is_settled=True
    )
    assert not may_remove(broker, controller.state, {**there, NodeId(1): None}, [replica(1)], is_settled=True)
    assert not may_remove(broker, controller.state, there, [replica(1), replica(4)], is_settled=True), (
        "it votes in the controller's Raft group"
    )
    assert not may_remove(broker, controller.state, {}, [replica(1)], is_settled=True), "no broker was asked"
    controller.assign(FIRST, 1, 2, 4)
    assert not may_remove(broker, controller.state, there, [replica(1)], is_settled=True)


def test_a_stopped_broker_is_removed_when_no_partition_needs_it(
    drained_broker: tuple[Controller, RegisteredBroker],
) -> None:
    controller, broker = drained_broker
    first, second = FIRST.group_id.bytes, SECOND.group_id.bytes

    def may(*led: bytes, is_settled: bool = True) -> bool:
        there = {NodeId(node): held_replicas(2, led=each) for node, each in enumerate(led, 1)}
        return may_remove(broker, controller.state, there, [replica(1)], is_settled=is_settled)

    assert may(summed([first]), summed([second]))
    assert not may(summed([first]), summed([second]), is_settled=False)
    assert not may(summed([first]), summed([]))
    assert not may(summed([first]), summed([first])), "two take themselves for its leader, and the other one has none"
    assert not may(b"", b""), "that was not asked for"


def test_a_broker_that_has_replicas_to_create_is_removed_when_no_partition_needs_it(
    drained_broker: tuple[Controller, RegisteredBroker],
) -> None:
    controller, broker = drained_broker
    groups = [FIRST.group_id.bytes, SECOND.group_id.bytes]
    there = {NodeId(4): held_replicas(0, led=summed([]), is_settled=False)}
    for led, may in ((groups[:1], False), (groups, True)):
        there[NodeId(1)] = held_replicas(2, led=summed(led))
        assert may_remove(broker, controller.state, there, [replica(1)], is_settled=True) == may
    there[NodeId(4)] = held_replicas(1, led=summed([]), is_settled=False)
    assert not may_remove(broker, controller.state, there, [replica(1)], is_settled=True)
