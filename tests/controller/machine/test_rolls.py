"""First rolls: the same bytes at any place and time."""

from raftlog.partitions.controller.machine import (
    AlterTopicConfigs,
    Bootstrap,
    GroupName,
    SetAssignment,
    SnapshotReader,
    TopicRow,
    controller_group_id,
    first_controller_roll,
    first_roll,
    snapshot_payloads,
)
from raftlog.runtime.log.control_entries import configuration_of_roll
from raftlog.storage.roll import decode_roll, encode_roll
from raftlog.types import Index
from tests.controller.machine.fleet import BOOTSTRAP, CLUSTER_ID, SEEDS, create, make_cluster, replica, topic_id


def test_a_first_roll_repeats_the_creation() -> None:
    creation = create("t", 1, (3, 1, 2), (2, 4, 1), configs={"segment.ms": "7", "retention.ms": "5"})
    roll = first_roll(TopicRow(creation, Index(9), (), Index(9)), 1)
    assert roll.group_id == GroupName(topic_id(1), 1).group_id
    assert (roll.base_index, roll.previous_term, roll.log_start_offset, roll.compacted_to) == (1, 0, 0, -1)
    assert (roll.created_ms, roll.configuration_index) == (5_000, 1)
    assert roll.settings == (("retention.ms", "5"), ("segment.ms", "7"))
    configuration = configuration_of_roll(roll)
    assert configuration.index == 1
    assert configuration.voters == (replica(1), replica(2), replica(4))
    assert not configuration.learners
    assert decode_roll(encode_roll(roll)) == roll


def test_neither_time_nor_a_snapshot_changes_a_first_roll() -> None:
    scribe = make_cluster()
    creation = create("t", 1, (3, 1, 2), configs={"retention.ms": "5"})
    version = Index(scribe.apply(creation))
    scribe.apply(AlterTopicConfigs("t", topic_id(1), (("retention.ms", "6"),)))
    scribe.apply(SetAssignment(topic_id(1), 0, (replica(4), replica(5)), version))
    restoration = None
    reader = SnapshotReader()
    for payload in snapshot_payloads(scribe.state, Index(1)):
        restoration = reader.take(payload)
    assert restoration is not None
    expected = encode_roll(first_roll(TopicRow(creation, version, (), version), 0))
    for state in (scribe.state, restoration.finish()):
        assert encode_roll(first_roll(state.topic("t"), 0)) == expected


def test_the_controllers_group_begins_with_at_most_five_voters() -> None:
    roll = first_controller_roll(BOOTSTRAP)
    assert roll.group_id == controller_group_id(CLUSTER_ID)
    assert configuration_of_roll(roll).voters == SEEDS
    assert (roll.created_ms, roll.settings) == (1_000, ())
    seven = tuple(map(replica, range(1, 8)))
    configuration = configuration_of_roll(first_controller_roll(Bootstrap(CLUSTER_ID, seven, 1, 1)))
    assert (configuration.voters, configuration.learners) == (seven[:5], seven[5:])
