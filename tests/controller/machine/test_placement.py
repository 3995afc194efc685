"""Placement: always distinct hosts, and balance wherever it is possible."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raftlog.errors import InvalidArgument, PlacementImpossible
from raftlog.partitions.controller.machine import PlacementCandidate, place_replicas
from raftlog.raft import ReplicaId
from tests.controller.machine.fleet import replica

Placed = tuple[tuple[ReplicaId, ...], ...]


def make_candidates(hosts: int, brokers_per_host: int = 1) -> list[PlacementCandidate]:
    return [
        PlacementCandidate(replica(host + 1_000 * worker), f"host-{host}")
        for worker in range(brokers_per_host)
        for host in range(1, hosts + 1)
    ]


def measure_spread(placed: Placed, among: list[PlacementCandidate]) -> tuple[int, int]:
    """Return the difference between the maximum and the minimum: of replicas, and of leaders."""
    replicas = Counter(member for row in placed for member in row)
    leaders = Counter(row[0] for row in placed)
    return tuple(  # type: ignore[return-value]
        max(counts[each.replica] for each in among) - min(counts[each.replica] for each in among)
        for counts in (replicas, leaders)
    )


def add_load(candidate: PlacementCandidate, row: tuple[ReplicaId, ...]) -> PlacementCandidate:
    """Return the candidate with the load of one more partition that has these replicas."""
    replicas = candidate.replicas + (candidate.replica in row)
    return candidate._replace(replicas=replicas, leaders=candidate.leaders + (candidate.replica == row[0]))


@settings(max_examples=60)
@given(st.integers(1, 7), st.integers(1, 3), st.data(), st.integers(0, 1 << 30))
def test_equal_brokers_get_equal_shares(hosts: int, workers: int, data: st.DataObject, seed: int) -> None:
    factor = data.draw(st.integers(1, hosts))
    count = data.draw(st.integers(1, 60))
    among = make_candidates(hosts, workers)
    placed = place_replicas(count, factor, among, Random(seed))
    host_of = {each.replica: each.host for each in among}
    assert len(placed) == count
    for row in placed:
        assert len(row) == factor == len({host_of[member] for member in row})
    replicas, leaders = measure_spread(placed, among)
    assert replicas <= 1
    assert leaders <= 1


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 40), st.integers(0, 20)), min_size=1, max_size=9),
    st.integers(1, 30),
    st.data(),
)
def test_two_replicas_never_share_a_host(drawn: list[tuple[int, int, int]], count: int, data: st.DataObject) -> None:
    among = [PlacementCandidate(replica(number), f"host-{host}", *load) for number, (host, *load) in enumerate(drawn)]
    hosts = {each.host for each in among}
    factor = data.draw(st.integers(1, len(hosts)))
    host_of = {each.replica: each.host for each in among}
    for row in place_replicas(count, factor, among, Random(1)):
        assert len({host_of[member] for member in row}) == factor


def test_the_least_loaded_brokers_are_chosen_first() -> None:
    among = [
        PlacementCandidate(replica(node), f"host-{node}", load, load)
        for node, load in ((1, 10), (2, 4), (3, 10), (4, 0))
    ]
    placed = place_replicas(4, 1, among, Random(1))
    assert placed == ((replica(4),),) * 4
    members = Counter(member for row in place_replicas(10, 2, among, Random(1)) for member in row)
    assert (members[replica(4)], members[replica(2)] >= 6) == (10, True), "until they have as many as the others"


def test_free_space_decides_only_between_brokers_with_equal_counts() -> None:
    gib = 1 << 30
    among = [
        PlacementCandidate(replica(node), f"host-{node}", 4, 1, room * gib) for node, room in ((1, 3), (2, 90), (3, 5))
    ]
    assert {place_replicas(1, 1, among, Random(seed))[0][0] for seed in range(20)} == {replica(2)}
    among[1] = among[1]._replace(replicas=5)
    assert replica(2) not in {place_replicas(1, 1, among, Random(seed))[0][0] for seed in range(20)}


def test_brokers_with_almost_equal_disks_are_chosen_at_random() -> None:
    among = [PlacementCandidate(replica(node), f"host-{node}", 0, 0, (300 << 30) + node) for node in (1, 2, 3)]
    assert {place_replicas(1, 1, among, Random(seed))[0][0] for seed in range(50)} == {each.replica for each in among}


def test_a_new_broker_does_not_lead_all_of_a_new_topic() -> None:
    among = [PlacementCandidate(replica(node), f"host-{node}", 300, 100) for node in range(1, 6)]
    leaders = Counter(
        row[0] for row in place_replicas(60, 3, [*among, PlacementCandidate(replica(6), "host-6")], Random(1))
    )
    assert sorted(leaders.values()) == [10] * 6
    single = [
        place_replicas(1, 3, [*among, PlacementCandidate(replica(6), "host-6")], Random(seed))[0][0]
        for seed in range(9)
    ]
    assert set(single) == {replica(6)}, "between equals the one that leads least"


def test_topics_created_one_after_another_stay_balanced() -> None:
    among = make_candidates(5)
    for number in range(40):
        for row in place_replicas(number % 3 + 1, 3, among, Random(number)):
            among = [add_load(each, row) for each in among]
    assert max(each.replicas for each in among) - min(each.replicas for each in among) <= 1
    assert max(each.leaders for each in among) - min(each.leaders for each in among) <= 2


def test_replica_sets_vary_so_that_a_crashed_broker_has_many_successors() -> None:
    placed = place_replicas(600, 3, make_candidates(6), Random(1))
    heirs = Counter(member for row in placed if row[0] == replica(1) for member in row[1:])
    assert len(heirs) == 5
    assert len({frozenset(row) for row in placed}) == 20, "all sets of three of six"


def test_the_same_seed_gives_the_same_placement_in_any_order_of_brokers() -> None:
    among = make_candidates(5, 2)
    assert place_replicas(50, 3, among, Random(4)) == place_replicas(50, 3, among[::-1], Random(4))


def test_an_impossible_placement_is_reported_with_numbers() -> None:
    with pytest.raises(PlacementImpossible, match=r"replication factor 3 needs as many hosts, and 2 have"):
        place_replicas(1, 3, make_candidates(2, 4), Random(1))
    with pytest.raises(PlacementImpossible, match="and 0 have"):
        place_replicas(1, 1, [], Random(1))
    for count, factor in ((0, 1), (1, 0)):
        with pytest.raises(InvalidArgument):
            place_replicas(count, factor, make_candidates(3), Random(1))
