"""Invariants of every assignor, the guarantees of each, and Kafka's own examples."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raftlog.assignors import ASSIGNORS, Assignor, Subscription
from raftlog.types import TopicPartition

FEW = settings(max_examples=40, deadline=None)
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


def owners(assigned: dict[str, list[TopicPartition]]) -> Owners:
    found: Owners = {}
    for member, partitions in assigned.items():
        for partition in partitions:
            assert partition not in found, f"{partition} has two owners"
            found[partition] = member
    return found


def on(*topics: str, owned: list[TopicPartition] | None = None, generation: int = -1) -> Subscription:
    return Subscription(topics, None, tuple(owned or ()), generation)


def after(
    members: dict[str, Subscription], assigned: dict[str, list[TopicPartition]], at: int
) -> dict[str, Subscription]:
    """Return the subscriptions with the assigned partitions as owned ones."""
    return {name: each._replace(owned=tuple(assigned[name]), generation=at) for name, each in members.items()}


def listed(assigned: dict[str, list[TopicPartition]]) -> dict[str, str]:
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
    found = owners(assigned)
    assert set(found) == {
        TopicPartition(topic, number) for topic in wanted & counts.keys() for number in range(counts[topic])
    }
    assert all(partition.topic in members[member].topics for partition, member in found.items())


@pytest.mark.parametrize("assign", ASSIGNORS.values(), ids=list(ASSIGNORS))
@FEW
@given(members=ANY_MEMBERS, counts=COUNTS, order=st.randoms(use_true_random=False))
def test_the_order_in_which_members_came_does_not_matter(
    assign: Assignor, members: dict[str, Subscription], counts: dict[str, int], order: Random
) -> None:
    names = list(members)
    order.shuffle(names)
    assert assign({name: members[name] for name in names}, counts) == assign(members, counts)


@pytest.mark.parametrize("name", ["roundrobin", "sticky"])
@FEW
@given(members=ALIKE, counts=COUNTS)
def test_with_equal_subscriptions_members_are_at_most_one_apart(
    name: str, members: dict[str, Subscription], counts: dict[str, int]
) -> None:
    sizes = [len(partitions) for partitions in ASSIGNORS[name](members, counts).values()]
    assert max(sizes, default=0) - min(sizes, default=0) <= 1


# range


def test_range_as_in_kafkas_documentation() -> None:
    assigned = ASSIGNORS["range"]({"C0": on("t0", "t1"), "C1": on("t0", "t1")}, {"t0": 3, "t1": 3})
    assert listed(assigned) == {"C0": "t0/0 t0/1 t1/0 t1/1", "C1": "t0/2 t1/2"}


@FEW
@given(members=st.integers(1, 6), count=st.integers(1, 20))
def test_range_gives_the_same_numbers_of_co_partitioned_topics_to_one_member(members: int, count: int) -> None:
    subscriptions = {name: on("t0", "t1") for name in NAMES[:members]}
    for partitions in ASSIGNORS["range"](subscriptions, {"t0": count, "t1": count}).values():
        numbers = [[each.partition for each in partitions if each.topic == topic] for topic in ("t0", "t1")]
        assert numbers[0] == numbers[1]
        assert numbers[0] == list(range(*([numbers[0][0], numbers[0][-1] + 1] if numbers[0] else [0])))


# round robin


def test_round_robin_as_in_kafkas_documentation() -> None:
    assigned = ASSIGNORS["roundrobin"]({"C0": on("t0", "t1"), "C1": on("t0", "t1")}, {"t0": 3, "t1": 3})
    assert listed(assigned) == {"C0": "t0/0 t0/2 t1/1", "C1": "t0/1 t1/0 t1/2"}
    different = {"C0": on("t0"), "C1": on("t0", "t1"), "C2": on("t0", "t1", "t2")}
    assigned = ASSIGNORS["roundrobin"](different, {"t0": 1, "t1": 2, "t2": 3})
    assert listed(assigned) == {"C0": "t0/0", "C1": "t1/0", "C2": "t1/1 t2/0 t2/1 t2/2"}


# sticky


def test_kip_54_a_member_that_leaves_moves_only_what_it_had() -> None:
    members = {name: on("t0", "t1", "t2") for name in ("C0", "C1", "C2")}
    counts = {"t0": 4, "t1": 4, "t2": 4}
    first = ASSIGNORS["sticky"](members, counts)
    rest = after(members, first, 1)
    del rest["C1"]
    second = ASSIGNORS["sticky"](rest, counts)
    assert all(set(first[name]) <= set(second[name]) for name in rest)


@FEW
@given(members=ALIKE, counts=COUNTS)
def test_sticky_moves_as_little_as_members_that_are_at_most_one_apart_allow(
    members: dict[str, Subscription], counts: dict[str, int]
) -> None:
    """Partitions above each member's share move, and no others; any member above its share may keep one more."""
    claims = claimed(members, counts)
    assigned = owners(ASSIGNORS["sticky"](members, counts))
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
def test_sticky_moves_as_little_from_any_distribution(had: Owners) -> None:
    members = {name: on(*TOPICS, owned=[each for each, owner in had.items() if owner == name]) for name in NAMES[:4]}
    assigned = owners(ASSIGNORS["sticky"](members, dict.fromkeys(TOPICS, 6)))
    counts = [sum(owner == name for owner in had.values()) for name in members]
    above = sum(max(0, count - 4) for count in counts) - min(2, sum(count > 4 for count in counts))
    assert sum(assigned[partition] != owner for partition, owner in had.items()) == above


def test_sticky_gives_away_first_what_few_can_take() -> None:
    """Otherwise y takes t0/1, and its own t1/0 makes it one too many."""
    members = {"x": on("t0", "t1", owned=[TopicPartition("t0", 0)]), "y": on("t0", "t1"), "z": on("t0")}
    assert listed(ASSIGNORS["sticky"](members, {"t0": 2, "t1": 1})) == {"x": "t0/0", "y": "t1/0", "z": "t0/1"}


def claimed(members: dict[str, Subscription], counts: dict[str, int]) -> Owners:
    """Return each partition's claim of the newest generation."""
    found: dict[TopicPartition, tuple[int, str]] = {}
    for name in sorted(members, reverse=True):
        for partition in members[name].owned:
            exists = partition.topic in members[name].topics and partition.partition < counts.get(partition.topic, 0)
            if exists and members[name].generation >= found.get(partition, (-2, ""))[0]:
                found[partition] = members[name].generation, name
    return {partition: name for partition, (_, name) in found.items()}


def test_kip_792_of_two_claims_the_newer_holds() -> None:
    mine = [TopicPartition("t0", number) for number in range(2)]
    both = {"old": on("t0", owned=mine, generation=4), "z": on("t0", owned=mine[:1], generation=5)}
    assert ASSIGNORS["sticky"](both, {"t0": 2}) == {"old": mine[1:], "z": mine[:1]}


@FEW
@given(members=ANY_MEMBERS, counts=COUNTS)
def test_sticky_with_different_subscriptions_is_even_and_stays(
    members: dict[str, Subscription], counts: dict[str, int]
) -> None:
    """No partition could move to a member that has two less; and what is so even stays as it is."""
    assigned = ASSIGNORS["sticky"](members, counts)
    for partition, owner in owners(assigned).items():
        least = min(len(assigned[name]) for name, each in members.items() if partition.topic in each.topics)
        assert len(assigned[owner]) - least < 2
    assert ASSIGNORS["sticky"](after(members, assigned, 4), counts) == assigned


def test_sticky_spreads_what_a_new_member_gets_over_the_others() -> None:
    members = {name: on("t0") for name in NAMES[:3]}
    first = ASSIGNORS["sticky"](members, {"t0": 9})
    second = ASSIGNORS["sticky"](after(members, first, 1) | {"new": on("t0")}, {"t0": 9})
    assert sorted(len(partitions) for partitions in second.values()) == [2, 2, 2, 3]
    assert sum(len(set(first[name]) - set(second[name])) for name in members) == 2
