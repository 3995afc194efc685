"""Additions of partitions: rules, first rolls, snapshots, placement, and releases without this command."""

from random import Random
from unittest.mock import patch

import pytest

from raftlog.errors import FormatError, InvalidArgument, UnknownBroker, UnknownTopic, VersionConflict
from raftlog.partitions.controller.machine import (
    AddPartitions,
    AlterTopicConfigs,
    ControllerState,
    DeleteTopic,
    GroupName,
    PlacementCandidate,
    SetAssignment,
    SetFeatureLevel,
    SnapshotReader,
    decode_request,
    encode_request,
    first_roll,
    place_replicas,
    request,
    rows,
    snapshot_payloads,
)
from raftlog.partitions.controller.machine.request import KINDS
from raftlog.partitions.controller.machine.schema import PARTITIONS_MAX, schema_fields
from raftlog.raft import ReplicaId
from raftlog.storage.roll import encode_roll
from raftlog.types import FEATURE_LEVEL_KNOWN, Index
from tests.controller.machine.fleet import (
    CommandLog,
    create,
    make_cluster,
    register,
    replay,
    replica,
    state_contents,
    topic_id,
)


def add(count: int, *placed: tuple[int, ...], name: str = "t", number: int = 1) -> AddPartitions:
    """Return an addition to a topic of `count` partitions."""
    replicas = tuple(tuple(replica(node) for node in nodes) for nodes in placed)
    return AddPartitions(name, topic_id(number), count, replicas, 6_000)


def make_current_cluster() -> CommandLog:
    """Return a cluster at the level of this release, with a topic of two partitions."""
    scribe = make_cluster()
    for node in range(1, 6):
        scribe.apply(register(node, epoch=2, levels=(1, FEATURE_LEVEL_KNOWN)))
    scribe.apply(SetFeatureLevel(FEATURE_LEVEL_KNOWN))
    scribe.apply(create("t", 1, (1, 2, 3), (2, 3, 4), configs={"min.insync.replicas": "2"}))
    return scribe


def restore(state: ControllerState) -> ControllerState:
    [piece] = snapshot_payloads(state, Index(1))
    restoration = SnapshotReader().take(piece)
    assert restoration is not None
    return restoration.finish()


def test_an_addition_keeps_the_uuid_and_the_present_partitions() -> None:
    scribe = make_current_cluster()
    before = [scribe.state.assignment(GroupName(topic_id(1), number)) for number in range(2)]
    version = scribe.apply(add(2, (3, 4), (5, 1)))
    topic = scribe.state.topic("t")
    assert (topic.topic_id, topic.version, topic.partition_count) == (topic_id(1), version, 4)
    assert [scribe.state.assignment(GroupName(topic_id(1), number)) for number in range(2)] == before
    added = scribe.state.assignment(GroupName(topic_id(1), 3))
    assert (added.replicas, added.version) == ((replica(5), replica(1)), version)
    assert scribe.state.group(GroupName(topic_id(1), 3).group_id) == GroupName(topic_id(1), 3)
    assert scribe.state.load(replica(5)) == (1, 1)
    assert scribe.state.replicas_of(topic)[2:] == [(replica(3), replica(4)), (replica(5), replica(1))]


def test_an_added_partition_moves_like_any_other() -> None:
    scribe = make_current_cluster()
    version = Index(scribe.apply(add(2, (3, 4))))
    target = (replica(5), replica(4))
    assert isinstance(scribe.apply_refused(SetAssignment(topic_id(1), 2, target, Index(version - 1))), VersionConflict)
    scribe.apply(SetAssignment(topic_id(1), 2, target, version))
    assert scribe.state.assignment(GroupName(topic_id(1), 2)).replicas == target
    assert scribe.state.topic("t").origin(2).replicas == (replica(3), replica(4)), "where it was created"


def test_repeated_and_second_requests_for_the_same_number_add_nothing() -> None:
    scribe = make_current_cluster()
    made = scribe.request(add(2, (3, 4)))
    first = scribe.put(made)
    again = scribe.put(made)
    assert (again.value, again.is_repeated) == (first.value, True)
    assert isinstance(scribe.apply_refused(add(2, (4, 5))), VersionConflict)
    assert scribe.state.topic("t").partition_count == 3


def test_impossible_additions_are_refused() -> None:
    scribe = make_current_cluster()
    scribe.apply(create("__i", 2, (1, 2)))
    assert isinstance(scribe.apply_refused(add(1, (3, 4), name="__i", number=2)), InvalidArgument)
    assert isinstance(scribe.apply_refused(add(2, (3, 9))), UnknownBroker)
    assert isinstance(scribe.apply_refused(add(2, (3,))), InvalidArgument), "min.insync.replicas is 2"
    assert isinstance(scribe.apply_refused(add(2, (3, 4), name="u")), UnknownTopic)
    with pytest.raises(InvalidArgument, match="partition 3 has 1 replicas and partition 2 has 2"):
        add(2, (3, 4), (5,))
    scribe.apply(register(5, epoch=3, host="host-4", levels=(1, FEATURE_LEVEL_KNOWN)))
    assert isinstance(scribe.apply_refused(add(2, (4, 5))), InvalidArgument), "two replicas on one host"
    many = tuple((replica(3), replica(4)) for _ in range(PARTITIONS_MAX - 1))
    full = AddPartitions("t", topic_id(1), 2, many, 6_000)
    assert "10001 of at most 10000 partitions" in str(scribe.apply_refused(full))


def test_a_deleted_topic_gets_no_partitions_and_its_tombstone_has_all() -> None:
    scribe = make_current_cluster()
    scribe.apply(add(2, (3, 4)))
    group = GroupName(topic_id(1), 2)
    scribe.apply(DeleteTopic("t", topic_id(1)))
    deletion = scribe.state.deletion_of(group.group_id, 2)
    assert deletion is not None
    assert deletion.partition_count == 3
    assert scribe.state.group(group.group_id) is None
    assert scribe.state.load(replica(4)) == (0, 0)
    assert isinstance(scribe.apply_refused(add(3, (3, 4))), UnknownTopic)


def test_first_rolls_keep_the_settings_of_their_addition() -> None:
    scribe = make_current_cluster()
    old = encode_roll(first_roll(scribe.state.topic("t"), 1))
    scribe.apply(AlterTopicConfigs("t", topic_id(1), (("retention.ms", "7"),)))
    scribe.apply(add(2, (3, 4)))
    roll = first_roll(scribe.state.topic("t"), 2)
    assert roll.group_id == GroupName(topic_id(1), 2).group_id
    assert (roll.created_ms, roll.settings) == (6_000, (("min.insync.replicas", "2"), ("retention.ms", "7")))
    scribe.apply(AlterTopicConfigs("t", topic_id(1), (), ("retention.ms",)))
    scribe.apply(add(3, (4, 5), (1, 2)))
    for state in (scribe.state, replay(scribe.log), restore(scribe.state)):
        assert encode_roll(first_roll(state.topic("t"), 1)) == old
        assert encode_roll(first_roll(state.topic("t"), 2)) == encode_roll(roll)
        assert first_roll(state.topic("t"), 4).settings == (("min.insync.replicas", "2"),)


def test_a_snapshot_contains_the_additions() -> None:
    scribe = make_current_cluster()
    scribe.apply(add(2, (3, 4)))
    scribe.apply(SetAssignment(topic_id(1), 2, (replica(1), replica(2)), scribe.last_index))
    scribe.apply(add(3, (4, 5), (1, 2)))
    copy = restore(scribe.state)
    assert copy.state_hash() == scribe.state.state_hash()
    assert state_contents(copy) == state_contents(scribe.state)
    assert copy.topic("t").added == scribe.state.topic("t").added
    assert copy.load(replica(4)) == scribe.state.load(replica(4))


# releases


def test_a_cluster_of_level_1_refuses_an_addition_and_names_the_remedy() -> None:
    scribe = make_cluster()
    scribe.apply(create("t", 1))
    error = scribe.apply_refused(add(1, (3, 4, 5)))
    assert isinstance(error, InvalidArgument)
    assert "AddPartitions needs feature level 2; the cluster runs at 1" in str(error)
    assert "raftlog cluster upgrade --finish" in str(error)


def test_a_topic_without_additions_is_encoded_as_before() -> None:
    scribe = make_current_cluster()
    assert len(scribe.state.topic("t").pack()) == 4


def test_a_release_of_level_1_stops_at_an_addition_and_at_a_topic_with_additions() -> None:
    scribe = make_current_cluster()
    scribe.apply(add(2, (3, 4)))
    kinds = {command: kind for command, kind in KINDS.items() if command is not AddPartitions}
    with (
        patch.object(request, "_BY_NUMBER", {kind.number: command for command, kind in kinds.items()}),
        pytest.raises(FormatError, match="command 13 is not known to this program"),
    ):
        decode_request(scribe.log[-1][1])
    fields = schema_fields(rows.TopicRow)[:4]
    [piece] = snapshot_payloads(scribe.state, Index(1))
    restoration = SnapshotReader().take(piece)
    assert restoration is not None
    with (
        patch.dict("raftlog.partitions.controller.machine.schema._FIELDS", {rows.TopicRow: fields}),
        pytest.raises(FormatError, match="TopicRow has 4 fields in this release, and 5 here: run a newer release"),
    ):
        restoration.finish()


def test_an_addition_is_decoded_from_its_bytes() -> None:
    made = CommandLog().request(add(2, (3, 4), (5, 1)))
    assert decode_request(encode_request(made)) == made


# placement


@pytest.mark.parametrize("seed", range(20))
def test_additions_continue_the_spread_of_leaders_over_the_brokers(seed: int) -> None:
    """Six partitions are added one by one on three brokers: each broker leads two, whatever it leads elsewhere."""
    random = Random(seed)
    led: dict[ReplicaId, int] = {}
    elsewhere = {1: 9, 2: 0, 3: 4}
    for count in range(6):
        among = [
            PlacementCandidate(replica(node), f"host-{node}", count + 9, elsewhere[node] + led.get(replica(node), 0))
            for node in (1, 2, 3)
        ]
        [replicas] = place_replicas(1, 3, among, random, led)
        led[replicas[0]] = led.get(replicas[0], 0) + 1
    assert sorted(led.values()) == [2, 2, 2]
