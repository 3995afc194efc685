"""Topics and assignments: refusals, answers, and deletions that are final."""

import uuid
from dataclasses import replace

import pytest

from raftlog.errors import (
    InvalidArgument,
    InvalidTopic,
    TopicExists,
    UnknownBroker,
    UnknownPartition,
    UnknownTopic,
    VersionConflict,
)
from raftlog.partitions.controller.machine import (
    AlterTopicConfigs,
    CreateTopic,
    DeleteTopic,
    GroupName,
    ReplicaLoad,
    SetAssignment,
    controller_group_id,
)
from raftlog.partitions.controller.machine.naming import group_keys
from raftlog.types import Index
from tests.controller.machine.fleet import (
    CLUSTER_ID,
    create,
    disk_uuid,
    groups_created_on,
    make_cluster,
    register,
    replica,
    topic_id,
)


def test_a_topic_is_created_and_found_by_name_and_uuid() -> None:
    scribe = make_cluster()
    version = scribe.apply(create("t", 1, (1, 2, 3), (2, 3, 4), configs={"retention.ms": "5"}))
    topic = scribe.state.topic("t")
    assert scribe.state.topic_by_id(topic_id(1)) is topic
    assert (topic.version, topic.created_index, topic.partition_count) == (version, version, 2)
    assert topic.configs == (("retention.ms", "5"),)
    assert scribe.state.load(replica(2)) == ReplicaLoad(replicas=2, leaders=1)
    assert scribe.state.load(replica(4)) == ReplicaLoad(replicas=1, leaders=0)
    assert scribe.state.groups_of(replica(4)) == [GroupName(topic_id(1), 1)]
    assert scribe.state.assignment(GroupName(topic_id(1), 1)).replicas == (replica(2), replica(3), replica(4))


def test_existing_topics_are_not_created_again() -> None:
    scribe = make_cluster()
    scribe.apply(create("t", 1))
    assert isinstance(scribe.apply_refused(create("t", 2)), TopicExists)
    assert isinstance(scribe.apply_refused(create("u", 1)), TopicExists)


def test_replicas_are_present_brokers_on_different_hosts() -> None:
    scribe = make_cluster()
    scribe.apply(register(6, host="host-1"))
    assert isinstance(scribe.apply_refused(create("t", 1, (1, 9, 3))), UnknownBroker)
    assert "one host" in str(scribe.apply_refused(create("t", 1, (2, 3, 4), (6, 2, 1))))
    other_disk = CreateTopic("t", topic_id(1), ((replica(1, 55),),), (), 1)
    assert isinstance(scribe.apply_refused(other_disk), UnknownBroker)


def test_a_deleted_topic_is_never_resurrected() -> None:
    scribe = make_cluster()
    creation = create("t", 1, (1, 2, 3), (1, 2, 3))
    scribe.apply(creation)
    assert isinstance(scribe.apply_refused(DeleteTopic("u", topic_id(1))), UnknownTopic)
    index = scribe.apply(DeleteTopic("t", topic_id(1)))
    assert scribe.state.deleted[topic_id(1)].version == index
    assert isinstance(scribe.apply_refused(creation), InvalidArgument)
    assert isinstance(scribe.apply_refused(replace(creation, name="u")), InvalidArgument)
    assert isinstance(scribe.apply_refused(DeleteTopic("t", topic_id(1))), UnknownTopic)
    assert isinstance(scribe.apply_refused(AlterTopicConfigs("t", topic_id(1), (("retention.ms", "1"),))), UnknownTopic)
    assert isinstance(scribe.apply_refused(SetAssignment(topic_id(1), 0, (replica(1),), Index(index))), UnknownTopic)
    scribe.apply(create("t", 2))
    assert isinstance(scribe.apply_refused(DeleteTopic("t", topic_id(1))), UnknownTopic), "meant the one before"
    with pytest.raises(UnknownTopic, match="was deleted"):
        scribe.state.topic_by_id(topic_id(1))


def test_groups_of_present_and_deleted_topics_are_found_by_their_ids() -> None:
    scribe = make_cluster()
    scribe.apply(create("t", 1, (1, 2, 3), (2, 3, 4)))
    group = GroupName(topic_id(1), 1)
    assert scribe.state.group(group.group_id) == group
    assert scribe.state.deletion_of(group.group_id, 1) is None
    scribe.apply(DeleteTopic("t", topic_id(1)))
    assert scribe.state.group(group.group_id) is None
    assert scribe.state.group_count() == 0
    tombstone = scribe.state.deletion_of(group.group_id, 1)
    assert tombstone is not None
    assert tombstone.name == "t"
    assert scribe.state.deletion_of(group.group_id, 0) is None
    assert scribe.state.load(replica(2)) == (0, 0)


def test_group_ids_are_version_5_uuids() -> None:
    assert GroupName(topic_id(1), 12).group_id == uuid.uuid5(topic_id(1), "12")
    assert controller_group_id(CLUSTER_ID) == uuid.uuid5(CLUSTER_ID, "controller")
    keys = [GroupName(topic_id(3), partition).group_id.bytes for partition in range(1_200)]
    assert list(group_keys(topic_id(3), 1_200)) == keys


def test_settings_change_by_name_with_and_without_a_version() -> None:
    scribe = make_cluster()
    created = Index(scribe.apply(create("t", 1, configs={"retention.ms": "5", "segment.ms": "7"})))
    alter = AlterTopicConfigs("t", topic_id(1), (("flush.ms", "9"), ("retention.ms", "6")), ("segment.ms",), created)
    version = Index(scribe.apply(alter))
    assert scribe.state.topic("t").configs == (("flush.ms", "9"), ("retention.ms", "6"))
    assert isinstance(scribe.apply_refused(alter), VersionConflict)
    assert isinstance(scribe.apply_refused(replace(alter, name="u", expected_version=version)), UnknownTopic)
    scribe.apply(AlterTopicConfigs("t", topic_id(1), (), ("flush.ms", "unheard.of")))
    assert scribe.state.topic("t").configs == (("retention.ms", "6"),)


def test_min_insync_replicas_is_at_most_the_number_of_replicas() -> None:
    scribe = make_cluster()
    for wanted in ("4", " 4", "+4", "0_4"):
        assert isinstance(
            scribe.apply_refused(create("t", 1, configs={"min.insync.replicas": wanted})), InvalidArgument
        )
    scribe.apply(create("t", 1, configs={"min.insync.replicas": "2"}))
    four = AlterTopicConfigs("t", topic_id(1), (("min.insync.replicas", "4"),))
    assert isinstance(scribe.apply_refused(four), InvalidArgument)
    version = scribe.state.topic("t").version
    assert isinstance(scribe.apply_refused(SetAssignment(topic_id(1), 0, (replica(1),), version)), InvalidArgument)
    wider = tuple(replica(node) for node in (1, 2, 3, 4))
    scribe.apply(SetAssignment(topic_id(1), 0, wider, version))
    scribe.apply(four)


def test_an_assignment_changes_by_compare_and_set() -> None:
    scribe = make_cluster()
    version = Index(scribe.apply(create("t", 1, (1, 2, 3), (1, 2, 3))))
    target = (replica(4), replica(2), replica(3))
    assert isinstance(scribe.apply_refused(SetAssignment(topic_id(1), 0, target, Index(version + 1))), VersionConflict)
    assert isinstance(scribe.apply_refused(SetAssignment(topic_id(1), 2, target, version)), UnknownPartition)
    assert isinstance(scribe.apply_refused(SetAssignment(topic_id(9), 0, target, version)), UnknownTopic)
    moved = Index(scribe.apply(SetAssignment(topic_id(1), 0, target, version)))
    assert isinstance(scribe.apply_refused(SetAssignment(topic_id(1), 0, target, version)), VersionConflict)
    assert scribe.state.assignment(GroupName(topic_id(1), 0)).version == moved
    assert scribe.state.load(replica(1)) == ReplicaLoad(replicas=1, leaders=1)
    assert scribe.state.load(replica(4)) == ReplicaLoad(replicas=1, leaders=1)
    assert scribe.state.groups_of(replica(1)) == [GroupName(topic_id(1), 1)]
    assert groups_created_on(scribe.state, replica(1)) == [GroupName(topic_id(1), 0), GroupName(topic_id(1), 1)]
    scribe.apply(register(6, host="host-2"))
    shared = (replica(6), replica(2), replica(3))
    assert isinstance(scribe.apply_refused(SetAssignment(topic_id(1), 0, shared, moved)), InvalidArgument)
    scribe.apply(SetAssignment(topic_id(1), 0, (replica(6), replica(3)), moved))


@pytest.mark.parametrize(
    ("name", "is_internal"),
    [("", False), (".a", False), ("a/b", False), ("a" * 250, False), ("__a", False), ("a", True), ("__", True)],
)
def test_invalid_topic_names_are_refused(name: str, is_internal: bool) -> None:
    with pytest.raises(InvalidArgument):
        CreateTopic(name, topic_id(1), ((replica(1),),), (), 1, is_internal)


def test_internal_topics_are_marked() -> None:
    scribe = make_cluster()
    scribe.apply(create("__consumer_offsets", 1))
    with pytest.raises(InvalidTopic, match="249"):
        create("__" + "a" * 248, 2)


def test_contradictory_commands_cannot_be_constructed() -> None:
    one, two = replica(1), replica(2)
    for make in (
        lambda: CreateTopic("t", topic_id(1), (), (), 1),
        lambda: CreateTopic("t", topic_id(1), ((),), (), 1),
        lambda: CreateTopic("t", topic_id(1), ((one, two), (one,)), (), 1),
        lambda: CreateTopic("t", topic_id(1), ((one, replica(1, 9)),), (), 1),
        lambda: CreateTopic("t", topic_id(1), ((one,),) * 10_001, (), 1),
        lambda: CreateTopic("t", topic_id(1), ((one,),), (("b", "1"), ("a", "1")), 1),
        lambda: CreateTopic("t", topic_id(1), ((one,),), (), -1),
        lambda: CreateTopic("t", topic_id(1), (((1, disk_uuid(1)),),), (), 1),  # type: ignore[arg-type]
        lambda: AlterTopicConfigs("t", topic_id(1), ()),
        lambda: AlterTopicConfigs("t", topic_id(1), (("a", "1"),), ("a",)),
        lambda: AlterTopicConfigs("t", topic_id(1), (), ("b", "a")),
        lambda: SetAssignment(topic_id(1), 0, (one, one), Index(1)),
        lambda: SetAssignment(topic_id(1), 0, (), Index(1)),
        lambda: SetAssignment(topic_id(1), -1, (one,), Index(1)),
        lambda: SetAssignment(topic_id(1), 0, tuple(map(replica, range(16))), Index(1)),
        lambda: register(1, replaces=1),
        lambda: register(1, epoch=0),
        lambda: register(1, levels=(3, 2)),
        lambda: register(1, host="a\nb"),
        lambda: register(1, host="\ud800"),
        lambda: register(-1),
    ):
        with pytest.raises(InvalidArgument):
            make()
