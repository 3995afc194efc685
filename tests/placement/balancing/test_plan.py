"""Planned places of replicas and leaders: urgent moves first, one replica at a time, and an even end."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raftlog.partitions.placement.balancing.layout import BrokerMode, BrokerPlace, PlacedPartition
from raftlog.partitions.placement.balancing.plan import ChangeReason, PlanScope, plan
from tests.placement.balancing.cluster import (
    CONTINUOUS,
    apply_changes,
    count_leaders,
    count_replicas,
    make_place,
    make_topic,
    nodes_of,
    plan_to_end,
    replica,
    spread,
)

THREE = [make_place(1), make_place(2), make_place(3)]
FOUR = [*THREE, make_place(4)]
SMALL = make_topic(1, [(1, 2, 3)] * 12)


def make_plan(
    places: list[BrokerPlace], placed: list[PlacedPartition], scope: PlanScope = CONTINUOUS, limit: int = 100
):  # type: ignore[no-untyped-def]
    return plan(places, placed, scope, Random(1), limit)


def test_an_even_distribution_does_not_change() -> None:
    even = make_topic(1, [(1, 2, 3), (2, 3, 1), (3, 1, 2)])
    assert make_plan(THREE, even) == ([], [])


def test_a_new_broker_gets_its_share_of_replicas_and_then_of_leaders() -> None:
    end, failures, moved = plan_to_end(FOUR, SMALL)
    assert not failures
    assert moved == 9, "not one more than its share"
    assert count_replicas(end, range(1, 5)) == {1: 9, 2: 9, 3: 9, 4: 9}
    assert count_leaders(end, range(1, 5)) == {1: 3, 2: 3, 3: 3, 4: 3}


def test_replicas_led_by_a_broker_stay_there_if_others_can_move() -> None:
    placed = make_topic(1, [(1, 2, 3), (2, 3, 1), (3, 1, 2)] * 4)
    changes, _ = make_plan(FOUR, placed)
    leaders = {each.group: each.replicas[0] for each in placed}
    assert len(changes) == 9
    assert all(change.replicas[0] == leaders[change.group] for change in changes)


def test_each_change_replaces_one_replica_of_one_partition() -> None:
    changes, _ = make_plan(FOUR, SMALL, limit=5)
    assert len(changes) == len({change.group for change in changes}) == 5
    for change in changes:
        assert len({*change.replicas} - {replica(node) for node in (1, 2, 3)}) == 1
        assert change.version == 1


def test_draining_comes_before_repair_before_hosts_before_evenness() -> None:
    places = [
        make_place(1, is_draining=True),
        make_place(2, is_lost=True, is_available=False),
        make_place(3),
        make_place(4, "host-3"),
        make_place(5),
        make_place(6),
    ]
    placed = [
        *make_topic(1, [(5, 3)] * 4),
        *make_topic(2, [(3, 4)]),
        *make_topic(3, [(2, 5)]),
        *make_topic(4, [(3, 1)]),
    ]
    changes, _ = make_plan(places, placed)
    whys = [change.why for change in changes]
    assert whys == sorted(whys, key=list(ChangeReason).index)
    assert set(whys) >= {ChangeReason.DRAIN, ChangeReason.REPAIR, ChangeReason.HOSTS, ChangeReason.EVEN}
    assert ChangeReason.LEADERS not in whys, "it waits for the others"


@pytest.mark.parametrize("mode", BrokerMode)
def test_a_draining_broker_is_emptied_in_every_mode(mode: BrokerMode) -> None:
    places = [make_place(1, is_draining=True), *FOUR[1:]]
    end, failures, _ = plan_to_end(places, SMALL, PlanScope(mode, balances_replicas=False))
    assert not failures
    assert count_replicas(end, [1]) == {1: 0}
    assert make_plan(places, end, PlanScope(mode, balances_replicas=False)) == ([], [])


def test_leaders_of_a_draining_broker_move_evenly_to_available_replicas() -> None:
    places = [make_place(1, is_draining=True), *FOUR[1:]]
    changes, _ = make_plan(places, make_topic(1, [(1, 2, 3)] * 12))
    assert {change.replicas[0].node_id for change in changes} == {2, 3}
    assert count_leaders(apply_changes(SMALL, changes), [2, 3]) == {2: 6, 3: 6}


def test_too_few_hosts_are_reported() -> None:
    places = [make_place(1, is_draining=True), *THREE[1:]]
    changes, failures = make_plan(places, SMALL)
    assert not changes
    assert {failure.group for failure in failures} == {each.group for each in SMALL}
    assert failures[0].node_id == 1
    assert "needs 3 hosts, and 2 are left" in failures[0].reason


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"in_maintenance": True}, "node 4 is in maintenance"),
        ({"is_full": True}, "node 4 has no room"),
        ({"is_available": False}, "node 4 is not available"),
    ],
)
def test_a_broker_without_capacity_is_reported_with_its_reason(how: dict[str, bool], words: str) -> None:
    places = [make_place(1, is_draining=True), *THREE[1:], make_place(4, **how)]
    changes, failures = make_plan(places, SMALL)
    assert not changes
    assert words in failures[0].reason


def test_a_lost_broker_is_replaced_also_when_the_balancer_is_off() -> None:
    places = [make_place(1, is_lost=True, is_available=False), *FOUR[1:]]
    end, _, _ = plan_to_end(places, SMALL, PlanScope(BrokerMode.OFF, balances_replicas=False))
    assert count_replicas(end, [1]) == {1: 0}


def test_a_broker_that_is_away_for_a_short_time_keeps_its_replicas() -> None:
    places = [make_place(1, is_available=False), *FOUR[1:]]
    assert make_plan(places, SMALL) == ([], [])


def test_a_broker_in_maintenance_keeps_its_replicas() -> None:
    even = make_topic(1, [(1, 2, 3), (2, 3, 1), (3, 1, 2)] * 2)
    assert make_plan([make_place(1, in_maintenance=True), *THREE[1:]], even) == ([], [])


def test_node_add_mode_fills_only_new_brokers() -> None:
    uneven = make_topic(1, [(1,)] * 6 + [(2,)])
    assert not make_plan([make_place(1), make_place(2)], uneven, PlanScope(BrokerMode.NODE_ADD))[0]
    end, _, _ = plan_to_end([make_place(1), make_place(2), make_place(3)], uneven, PlanScope(BrokerMode.NODE_ADD))
    assert count_replicas(end, (1, 2, 3)) == {1: 3, 2: 1, 3: 3}
    end, _, _ = plan_to_end([make_place(1), make_place(2)], uneven)
    assert count_replicas(end, (1, 2)) == {1: 4, 2: 3}


def test_each_topic_is_evened_although_their_sum_is_even() -> None:
    placed = [*make_topic(1, [(1,)] * 4), *make_topic(2, [(2,)] * 4)]
    end, _, moved = plan_to_end([make_place(1), make_place(2)], placed)
    assert moved == 4
    assert count_replicas(end[:4], (1, 2)) == count_replicas(end[4:], (1, 2)) == {1: 2, 2: 2}


def test_a_replica_goes_to_a_host_that_has_none() -> None:
    places = [make_place(1), make_place(2, "host-1"), make_place(3), make_place(4)]
    end, _, _ = plan_to_end(places, make_topic(1, [(1, 2, 3)]))
    assert {4} < set(nodes_of(end)[0])


def test_missing_replicas_are_added_up_to_the_number_at_the_creation() -> None:
    """Replicas are added once there are hosts; partitions created with one replica keep one."""
    was_three = [each._replace(replicas=each.replicas[:2]) for each in make_topic(1, [(1, 2, 3)])]
    end, failures, _ = plan_to_end([make_place(1), make_place(2)], was_three)
    assert len(end[0].replicas) == 2
    assert not failures
    end, _, _ = plan_to_end(FOUR, was_three)
    assert len(end[0].replicas) == 3
    assert make_plan(FOUR, make_topic(2, [(1,)])) == ([], [])


def test_moving_replicas_are_left_alone_until_their_target_fails() -> None:
    places = [make_place(1, is_draining=True), *FOUR[1:], make_place(5, is_available=False)]
    moving = make_topic(1, [(2, 3, 5)], is_busy=True)
    assert make_plan(places, moving) == ([], [])
    stuck = make_topic(1, [(2, 3, 5)], stuck=(5,), former=(1,))
    [change], _ = make_plan(places, stuck)
    assert change.replicas == (replica(2), replica(3), replica(4))
    back = make_plan([*THREE, make_place(4), places[-1]], stuck)[0]
    assert back[0].replicas == (replica(2), replica(3), replica(1)), "what it has already costs nothing"


def test_replicas_placed_by_a_request_stay() -> None:
    recently_placed = make_topic(1, [(1, 2, 3)] * 12, is_recently_placed=True)
    assert make_plan(FOUR, recently_placed) == ([], [])
    assert len(make_plan([make_place(1, is_draining=True), *FOUR[1:]], recently_placed)[0]) == 12


def test_leaders_are_evened_through_a_third_broker() -> None:
    placed = make_topic(1, [(1, 2), (1, 2), (1, 2), (2, 3)])
    end, _, moved = plan_to_end(THREE, placed, PlanScope(BrokerMode.NODE_ADD))
    assert moved == 0
    assert spread(count_leaders(end, (1, 2, 3))) <= 1
    assert make_plan(THREE, placed, PlanScope(BrokerMode.NODE_ADD, balances_leaders=False)) == ([], [])


def test_leaders_of_single_partition_topics_are_even() -> None:
    placed = [each for number in range(30) for each in make_topic(number, [(1, 2, 3)])]
    end, _, _ = plan_to_end(THREE, placed)
    assert count_leaders(end, (1, 2, 3)) == {1: 10, 2: 10, 3: 10}


# random clusters


@st.composite
def clusters(draw: st.DrawFn, one_broker_a_host: bool) -> tuple[list[BrokerPlace], list[PlacedPartition]]:
    """Draw brokers in various states and the replicas of partitions on them."""
    count = draw(st.integers(2, 7))
    hosts = (
        range(1, count + 1) if one_broker_a_host else draw(st.lists(st.integers(1, 4), min_size=count, max_size=count))
    )
    states = [{}] * 3 if one_broker_a_host else [{}, {}, {}, {"is_draining": True}, {"in_maintenance": True}]
    states += [] if one_broker_a_host else [{"is_available": False}, {"is_available": False, "is_lost": True}]
    places = [make_place(node, f"host-{host}", **draw(st.sampled_from(states))) for node, host in enumerate(hosts, 1)]
    random = Random(draw(st.integers(0, 1 << 30)))
    by_host: dict[str, list[int]] = {}
    for each in places:
        by_host.setdefault(each.host, []).append(each.replica.node_id)
    placed: list[PlacedPartition] = []
    for number in range(draw(st.integers(1, 4))):
        factor = draw(st.integers(1, min(3, len(by_host))))
        favoured = random.sample(sorted(by_host), random.randint(factor, len(by_host)))
        rows = [
            [random.choice(by_host[host]) for host in random.sample(favoured, factor)]
            for _ in range(draw(st.integers(1, 12)))
        ]
        placed += make_topic(number, rows)
    return places, placed


def are_apart(places: list[BrokerPlace], placed: list[PlacedPartition]) -> bool:
    host = {each.replica.node_id: each.host for each in places}
    return all(len({host[node] for node in row}) == len(row) for row in nodes_of(placed))


@settings(max_examples=60)
@given(clusters(one_broker_a_host=True), st.integers(1, 20), st.integers(0, 5))
def test_planning_ends_in_an_even_distribution(
    cluster: tuple[list[BrokerPlace], list[PlacedPartition]], limit: int, seed: int
) -> None:
    places, placed = cluster
    end, failures, _ = plan_to_end(places, placed, limit=limit, seed=seed)
    nodes = [each.replica.node_id for each in places]
    assert not failures
    assert are_apart(places, end)
    assert spread(count_replicas(end, nodes)) <= 1
    for topic_id in {each.group.topic_id for each in end}:
        assert spread(count_replicas([each for each in end if each.group.topic_id == topic_id], nodes)) <= 1


@settings(max_examples=60)
@given(clusters(one_broker_a_host=False), st.integers(1, 20), st.integers(0, 5), st.sampled_from(BrokerMode))
def test_every_plan_is_legal_and_planning_ends(
    cluster: tuple[list[BrokerPlace], list[PlacedPartition]], limit: int, seed: int, mode: BrokerMode
) -> None:
    places, placed = cluster
    random, scope = Random(seed), PlanScope(mode)
    takes = {each.replica for each in places if each.takes_replicas}
    now = placed
    while changes := plan(places, now, scope, random, limit)[0]:
        assert len(changes) <= limit + len(places)
        before = {each.group: each.replicas for each in now}
        for change in changes:
            assert len({*change.replicas} - {*before[change.group]}) <= 1
            assert {*change.replicas} - {*before[change.group]} <= takes
            assert len(change.replicas) == len(before[change.group])
        assert len(changes) == len({change.group for change in changes})
        assert measure(places, apply_changes(now, changes)) < measure(places, now)
        now = apply_changes(now, changes)
        assert are_apart(places, now)
    end, _, moved = plan_to_end(places, now, scope, limit, seed + 1)
    assert moved == 0, "another draw of the generator does not take it back"
    assert nodes_of(end) == nodes_of(now)


def measure(places: list[BrokerPlace], placed: list[PlacedPartition]) -> tuple[int, ...]:
    """Return the measure that decreases with every plan."""
    bad = {each.replica.node_id for each in places if not each.stays}
    takes = [each.replica.node_id for each in places if each.takes_replicas]
    leads = [each.replica.node_id for each in places if each.takes_leaders]
    topics = [
        [each for each in placed if each.group.topic_id == one] for one in {each.group.topic_id for each in placed}
    ]
    return (
        sum(node in bad for row in nodes_of(placed) for node in row),
        sum(count**2 for count in count_replicas(placed, takes).values()),
        sum(count**2 for some in topics for count in count_replicas(some, takes).values()),
        sum(count**2 for some in topics for count in count_leaders(some, leads).values()),
        sum(count**2 for count in count_leaders(placed, leads).values()),
    )
