"""Invariants of all assignors, the guarantees of each one, and the examples of Kafka's documentation."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raftlog.assignors import ASSIGNORS, Assignor, Subscription
from raftlog.types import TopicPartition

FEW = settings(max_examples=20)
TOPICS = ["t0", "t1", "t2"]
NAMES = [f"m{number}" for number in range(6)]
COUNTS = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 9))
OWNED = st.sets(st.builds(TopicPartition, st.sampled_from([*TOPICS, "gone"]), st.integers(0, 10)), max_size=12)
ANY_MEMBERS = st.dictionaries(
    st.sampled_from(NAMES),
    st.builds(
        lambda topics, owned, generation: Subscription(tuple(topics), None, tuple(owned), generation),
        st.sets(st.sampled_from([*TOPICS, "missing"])),
        OWNED,
        st.integers(-1, 3),
    ),
)
ALIKE = st.builds(
    lambda members, topics: {name: each._replace(topics=tuple(topics)) for name, each in members.items()},
    ANY_MEMBERS,
    st.sets(st.sampled_from(TOPICS)),
)
Owners = dict[TopicPartition, str]


def find_owners(assigned: dict[str, list[TopicPartition]]) -> Owners:
    found: Owners = {}
    for member, partitions in assigned.items():
        for partition in partitions:
            assert partition not in found, f"{partition} has two owners"
            found[partition] = member
    return found


def subscribe_to(*topics: str, owned: list[TopicPartition] | None = None, generation: int = -1) -> Subscription:
    return Subscription(topics, None, tuple(owned or ()), generation)


def own_assigned(
    members: dict[str, Subscription], assigned: dict[str, list[TopicPartition]], at: int
) -> dict[str, Subscription]:
    """Return the subscriptions with the assigned partitions as owned partitions of this generation."""
    return {name: each._replace(owned=tuple(assigned[name]), generation=at) for name, each in members.items()}


def format_assignment(assigned: dict[str, list[TopicPartition]]) -> dict[str, str]:
    return {name: " ".join(map(str, partitions)) for name, partitions in assigned.items()}


@pytest.mark.parametrize("assign", ASSIGNORS.values(), ids=list(ASSIGNORS))
@FEW
@given(members=ANY_MEMBERS, counts=COUNTS)
def test_each_partition_has_one_owner_among_its_subscribers(
    assign: Assignor, members: dict[str, Subscription], counts: dict[str, int]
) -> None:
    assigned = assign(members, counts)
    assert assigned.keys() == members.keys()
    assert all(partitions == sorted(partitions) for partitions in assigned.values())
    wanted = {topic for each in members.values() for topic in each.topics}
    found = find_owners(assigned)
    assert set(found) == {
        TopicPartition(topic, number) for topic in wanted & counts.keys() for number in range(counts[topic])
    }
    assert all(partition.topic in members[member].topics for partition, member in found.items())


@pytest.mark.parametrize("assign", ASSIGNORS.values(), ids=list(ASSIGNORS))
@FEW
@given(members=ANY_MEMBERS, counts=COUNTS, order=st.randoms(use_true_random=False))
def test_the_order_of_the_members_does_not_matter(
    assign: Assignor, members: dict[str, Subscription], counts: dict[str, int], order: Random
) -> None:
    names = list(members)
    order.shuffle(names)
    assert assign({name: members[name] for name in names}, counts) == assign(members, counts)


@pytest.mark.parametrize("name", ["roundrobin", "sticky"])
@FEW
@given(members=ALIKE, counts=COUNTS)
def test_with_equal_subscriptions_the_members_counts_differ_by_at_most_one(
    name: str, members: dict[str, Subscription], counts: dict[str, int]
) -> None:
    sizes = [len(partitions) for partitions in ASSIGNORS[name](members, counts).values()]
    assert max(sizes, default=0) - min(sizes, default=0) <= 1


# range


def test_range_matches_kafkas_documentation() -> None:
    assigned = ASSIGNORS["range"]({"C0": subscribe_to("t0", "t1"), "C1": subscribe_to("t0", "t1")}, {"t0": 3, "t1": 3})
    assert format_assignment(assigned) == {"C0": "t0/0 t0/1 t1/0 t1/1", "C1": "t0/2 t1/2"}


@FEW
@given(members=st.integers(1, 6), count=st.integers(1, 20))
def test_range_gives_the_same_numbers_of_co_partitioned_topics_to_one_member(members: int, count: int) -> None:
    subscriptions = {name: subscribe_to("t0", "t1") for name in NAMES[:members]}
    for partitions in ASSIGNORS["range"](subscriptions, {"t0": count, "t1": count}).values():
        numbers = [[each.partition for each in partitions if each.topic == topic] for topic in ("t0", "t1")]
        assert numbers[0] == numbers[1]
        assert numbers[0] == list(range(*([numbers[0][0], numbers[0][-1] + 1] if numbers[0] else [0])))


# round robin


def test_round_robin_matches_kafkas_documentation() -> None:
    assigned = ASSIGNORS["roundrobin"](
        {"C0": subscribe_to("t0", "t1"), "C1": subscribe_to("t0", "t1")}, {"t0": 3, "t1": 3}
    )
    assert format_assignment(assigned) == {"C0": "t0/0 t0/2 t1/1", "C1": "t0/1 t1/0 t1/2"}
    different = {"C0": subscribe_to("t0"), "C1": subscribe_to("t0", "t1"), "C2": subscribe_to("t0", "t1", "t2")}
    assigned = ASSIGNORS["roundrobin"](different, {"t0": 1, "t1": 2, "t2": 3})
    assert format_assignment(assigned) == {"C0": "t0/0", "C1": "t1/0", "C2": "t1/1 t2/0 t2/1 t2/2"}


# sticky


def test_kip_54_only_the_partitions_of_a_leaving_member_move() -> None:
    members = {name: subscribe_to("t0", "t1", "t2") for name in ("C0", "C1", "C2")}
    counts = {"t0": 4, "t1": 4, "t2": 4}
    first = ASSIGNORS["sticky"](members, counts)
    rest = own_assigned(members, first, 1)
    del rest["C1"]
    second = ASSIGNORS["sticky"](rest, counts)
    assert all(set(first[name]) <= set(second[name]) for name in rest)


@FEW
@given(members=ALIKE, counts=COUNTS)
def test_sticky_moves_as_few_partitions_as_balance_allows(
    members: dict[str, Subscription], counts: dict[str, int]
) -> None:
    """Partitions above a member's share move, and no others; as many members as the remainder may keep one more."""
    claims = newest_claims(members, counts)
    assigned = find_owners(ASSIGNORS["sticky"](members, counts))
    moved = sum(assigned[partition] != member for partition, member in claims.items())
    share, more = divmod(len(assigned), len(members) or 1)
    had = [sum(owner == name for owner in claims.values()) for name in members]
    above = sum(max(0, each - share) for each in had)
    assert moved == above - min(more, sum(each > share for each in had))


@FEW
@given(
    had=st.dictionaries(
        st.builds(TopicPartition, st.sampled_from(TOPICS), st.integers(0, 5)), st.sampled_from(NAMES[:4]), max_size=18
    )
)
def test_sticky_moves_as_few_partitions_as_possible_from_any_distribution(had: Owners) -> None:
    members = {
        name: subscribe_to(*TOPICS, owned=[each for each, owner in had.items() if owner == name]) for name in NAMES[:4]
    }
    assigned = find_owners(ASSIGNORS["sticky"](members, dict.fromkeys(TOPICS, 6)))
    counts = [sum(owner == name for owner in had.values()) for name in members]
    above = sum(max(0, count - 4) for count in counts) - min(2, sum(count > 4 for count in counts))
    assert sum(assigned[partition] != owner for partition, owner in had.items()) == above


def test_sticky_first_moves_partitions_with_few_subscribers() -> None:
    """Otherwise member y would get t0/1 and, with its own t1/0, have one too many."""
    members = {
        "x": subscribe_to("t0", "t1", owned=[TopicPartition("t0", 0)]),
        "y": subscribe_to("t0", "t1"),
        "z": subscribe_to("t0"),
    }
    assert format_assignment(ASSIGNORS["sticky"](members, {"t0": 2, "t1": 1})) == {
        "x": "t0/0",
        "y": "t1/0",
        "z": "t0/1",
    }


def newest_claims(members: dict[str, Subscription], counts: dict[str, int]) -> Owners:
    """Return the owner that claims each partition with the newest generation."""
    found: dict[TopicPartition, tuple[int, str]] = {}
    for name in sorted(members, reverse=True):
        for partition in members[name].owned:
            exists = partition.topic in members[name].topics and partition.partition < counts.get(partition.topic, 0)
            if exists and members[name].generation >= found.get(partition, (-2, ""))[0]:
                found[partition] = members[name].generation, name
    return {partition: name for partition, (_, name) in found.items()}


def test_kip_792_the_claim_of_the_newer_generation_wins() -> None:
    mine = [TopicPartition("t0", number) for number in range(2)]
    both = {"old": subscribe_to("t0", owned=mine, generation=4), "z": subscribe_to("t0", owned=mine[:1], generation=5)}
    assert ASSIGNORS["sticky"](both, {"t0": 2}) == {"old": mine[1:], "z": mine[:1]}


@FEW
@given(members=ANY_MEMBERS, counts=COUNTS)
def test_sticky_with_different_subscriptions_is_balanced_and_stable(
    members: dict[str, Subscription], counts: dict[str, int]
) -> None:
    """No partition could move to a member with two less; a balanced assignment does not change."""
    assigned = ASSIGNORS["sticky"](members, counts)
    for partition, owner in find_owners(assigned).items():
        least = min(len(assigned[name]) for name, each in members.items() if partition.topic in each.topics)
        assert len(assigned[owner]) - least < 2
    assert ASSIGNORS["sticky"](own_assigned(members, assigned, 4), counts) == assigned


def test_sticky_takes_a_new_members_partitions_evenly_from_the_others() -> None:
    members = {name: subscribe_to("t0") for name in NAMES[:3]}
    first = ASSIGNORS["sticky"](members, {"t0": 9})
    second = ASSIGNORS["sticky"](own_assigned(members, first, 1) | {"new": subscribe_to("t0")}, {"t0": 9})
    assert sorted(len(partitions) for partitions in second.values()) == [2, 2, 2, 3]
    assert sum(len(set(first[name]) - set(second[name])) for name in members) == 2
