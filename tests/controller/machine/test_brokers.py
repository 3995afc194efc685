"""Registration of brokers: identity, boot epochs, removed and replaced disks, draining, producer ids, levels."""

from dataclasses import replace
from unittest.mock import patch
from uuid import UUID

import pytest

from raftlog.errors import (
    ChangeRefused,
    FormatError,
    IdentityRefused,
    InvalidArgument,
    Unavailable,
    UnknownBroker,
    VersionConflict,
)
from raftlog.partitions.controller.machine import (
    AllocateProducerIds,
    Bootstrap,
    DeleteTopic,
    RemoveBroker,
    SetAssignment,
    SetFeatureLevel,
    UpdateBroker,
    broker_rules,
)
from raftlog.partitions.controller.machine.schema import NUMBER_MAX
from raftlog.types import FEATURE_LEVEL_KNOWN, Index, NodeId
from tests.controller.machine.fleet import (
    BOOTSTRAP,
    SEEDS,
    CommandLog,
    create,
    disk_uuid,
    groups_created_on,
    make_cluster,
    register,
    replica,
    topic_id,
)

ONE = NodeId(1)


def test_commands_before_the_bootstrap_are_refused() -> None:
    scribe = CommandLog()
    assert isinstance(scribe.apply_refused(register(1)), Unavailable)
    assert isinstance(scribe.apply_refused(create("t", 1)), Unavailable)
    assert scribe.apply(BOOTSTRAP) == 3
    assert scribe.apply(register(1)) == 4


def test_a_cluster_is_bootstrapped_once() -> None:
    scribe = make_cluster()
    scribe.apply(BOOTSTRAP)
    assert isinstance(scribe.apply_refused(replace(BOOTSTRAP, cluster_id=UUID(int=9))), InvalidArgument)
    assert isinstance(scribe.apply_refused(Bootstrap(BOOTSTRAP.cluster_id, SEEDS[:2], 1, 1_000)), InvalidArgument)
    assert scribe.state.bootstrap == BOOTSTRAP


def test_a_start_raises_the_boot_epoch_and_an_old_copy_is_refused() -> None:
    scribe = make_cluster()
    version = scribe.apply(register(1, epoch=4, port=9100))
    assert scribe.state.broker(ONE).boot_epoch == 4
    assert scribe.state.broker(ONE).version == version
    assert "old copy" in str(scribe.apply_refused(register(1, epoch=3)))
    assert scribe.state.broker(ONE).addresses.http == "h1:9100"


def test_a_start_can_be_repeated_but_not_by_two_processes() -> None:
    scribe = make_cluster()
    version = scribe.apply(register(1, epoch=4))
    assert scribe.apply(register(1, epoch=4)) == version
    for other in (register(1, epoch=4, port=9500), register(1, epoch=4, host="elsewhere")):
        assert isinstance(scribe.apply_refused(other), IdentityRefused)


def test_a_node_id_belongs_to_a_disk() -> None:
    scribe = make_cluster()
    assert isinstance(scribe.apply_refused(register(1, 77)), IdentityRefused)
    assert isinstance(scribe.apply_refused(register(1, 77, replaces=78)), IdentityRefused)
    assert isinstance(scribe.apply_refused(register(6, 1)), IdentityRefused), "a copied disk under another node id"
    scribe.apply(register(6, 6))
    assert isinstance(scribe.apply_refused(register(7, 8, replaces=6)), IdentityRefused), "that of another node"


def test_a_seed_has_its_node_id_before_it_registers() -> None:
    scribe = make_cluster(brokers=1)
    assert isinstance(scribe.apply_refused(register(2, 77)), IdentityRefused)
    assert isinstance(scribe.apply_refused(register(7, 2)), IdentityRefused)
    scribe.apply(register(2, 77, replaces=2))
    assert isinstance(scribe.apply_refused(register(2)), IdentityRefused)
    scribe.apply(RemoveBroker(NodeId(3), disk_uuid(3)))
    scribe.apply(register(3, 33))


def test_a_replaced_disk_never_returns_and_the_new_one_gets_its_replicas() -> None:
    scribe = make_cluster()
    scribe.apply(create("t", 1, (1, 2, 3), (2, 3, 4), (4, 5, 1)))
    replaced = Index(scribe.apply(register(1, 71, replaces=1)))
    assert scribe.apply(register(1, 71, replaces=1)) == scribe.state.broker(ONE).version, "said again"
    assert isinstance(scribe.apply_refused(register(1, epoch=99)), IdentityRefused)
    assert isinstance(scribe.apply_refused(register(9, 1)), IdentityRefused)
    assert scribe.state.load(replica(1)).replicas == 0
    assert scribe.state.load(replica(1, 71)) == (2, 1)
    assert scribe.state.broker_of(replica(1)) is None
    assert scribe.state.replicas_of(scribe.state.topic("t")) == [
        (replica(1, 71), replica(2), replica(3)),
        (replica(2), replica(3), replica(4)),
        (replica(4), replica(5), replica(1, 71)),
    ]
    assert groups_created_on(scribe.state, replica(1, 71)) == [], "it begins empty, and its leaders fill it"
    assert [row.version for row in scribe.state.moved] == [replaced] * 2
    assert isinstance(scribe.apply_refused(create("u", 2, (1, 2))), UnknownBroker)
    moved = (replica(4), replica(2), replica(1, 71))
    scribe.apply(SetAssignment(topic_id(1), 0, moved, replaced))


def test_a_broker_without_replicas_can_be_removed() -> None:
    scribe = make_cluster()
    scribe.apply(create("t", 1, (1, 2, 3)))
    assert isinstance(scribe.apply_refused(RemoveBroker(ONE, disk_uuid(1))), ChangeRefused)
    assert isinstance(scribe.apply_refused(RemoveBroker(ONE, disk_uuid(2))), UnknownBroker)
    scribe.apply(DeleteTopic("t", topic_id(1)))
    scribe.apply(UpdateBroker(ONE, disk_uuid(1), True))
    scribe.apply(RemoveBroker(ONE, disk_uuid(1)))
    assert isinstance(scribe.apply_refused(RemoveBroker(ONE, disk_uuid(1))), UnknownBroker)
    assert isinstance(scribe.apply_refused(register(1, epoch=9)), IdentityRefused)
    scribe.apply(register(1, 71))
    with pytest.raises(UnknownBroker):
        scribe.state.broker(NodeId(9))


def test_draining_outlasts_restarts_and_prevents_new_replicas() -> None:
    scribe = make_cluster()
    version = scribe.state.broker(ONE).version
    assert isinstance(scribe.apply_refused(UpdateBroker(ONE, disk_uuid(1), True, Index(version + 1))), VersionConflict)
    assert isinstance(scribe.apply_refused(UpdateBroker(ONE, disk_uuid(2), True)), UnknownBroker)
    version = Index(scribe.apply(UpdateBroker(ONE, disk_uuid(1), True, version)))
    assert scribe.apply(UpdateBroker(ONE, disk_uuid(1), True, version)) == version
    scribe.apply(register(1, epoch=2))
    assert scribe.state.broker(ONE).is_draining
    assert [candidate.replica.node_id for candidate in scribe.state.candidates()] == [2, 3, 4, 5]
    scribe.apply(register(1, epoch=3, draining=False))
    assert len(scribe.state.candidates()) == 5


def test_producer_ids_are_allocated_once_and_only_to_the_current_process() -> None:
    scribe = make_cluster()
    assert scribe.apply(AllocateProducerIds(ONE, disk_uuid(1), 1, 1_000)) == 0
    assert scribe.apply(AllocateProducerIds(NodeId(2), disk_uuid(2), 1, 5)) == 1_000
    scribe.apply(register(1, epoch=2))
    assert isinstance(scribe.apply_refused(AllocateProducerIds(ONE, disk_uuid(1), 1, 5)), IdentityRefused)
    assert isinstance(scribe.apply_refused(AllocateProducerIds(NodeId(9), disk_uuid(9), 1, 5)), UnknownBroker)
    assert scribe.apply(AllocateProducerIds(ONE, disk_uuid(1), 2, 1)) == 1_005
    scribe.state.next_producer_id = NUMBER_MAX - 3
    assert isinstance(scribe.apply_refused(AllocateProducerIds(ONE, disk_uuid(1), 2, 4)), InvalidArgument)
    assert scribe.apply(AllocateProducerIds(ONE, disk_uuid(1), 2, 3)) == NUMBER_MAX - 3


def test_the_feature_level_rises_when_all_brokers_support_the_next() -> None:
    scribe = make_cluster()
    unknown = FEATURE_LEVEL_KNOWN + 1
    assert isinstance(scribe.apply_refused(register(6, levels=(2, 3))), InvalidArgument)
    assert isinstance(scribe.apply_refused(SetFeatureLevel(unknown)), InvalidArgument)
    assert scribe.apply(SetFeatureLevel(1)) == scribe.last_index
    for node in range(1, 6):
        scribe.apply(register(node, epoch=2, levels=(1, unknown)))
    request = scribe.request(SetFeatureLevel(unknown))
    before = scribe.state.state_hash()
    with pytest.raises(FormatError, match="newer release"):
        scribe.state.apply(request, Index(scribe.last_index + 1))
    assert scribe.state.state_hash() == before, "a replica that cannot follow stops as it is"
    with patch.object(broker_rules, "FEATURE_LEVEL_KNOWN", unknown):
        scribe.apply(SetFeatureLevel(unknown))
    assert scribe.state.feature_level == unknown
    assert isinstance(scribe.apply_refused(SetFeatureLevel(1)), InvalidArgument)
    assert isinstance(scribe.apply_refused(register(6, levels=(1, 1))), InvalidArgument)


def test_a_seed_that_never_registered_keeps_the_feature_level_down() -> None:
    scribe = make_cluster(brokers=2)
    for node in (1, 2):
        scribe.apply(register(node, epoch=2, levels=(1, 2)))
    with patch.object(broker_rules, "FEATURE_LEVEL_KNOWN", 2):
        assert isinstance(scribe.apply_refused(SetFeatureLevel(2)), ChangeRefused)
        scribe.apply(RemoveBroker(NodeId(3), disk_uuid(3)))
        scribe.apply(SetFeatureLevel(2))
