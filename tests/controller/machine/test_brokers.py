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
    Scribe,
    cluster,
    create,
    created_on,
    disk,
    register,
    replica,
    topic_id,
)

ONE = NodeId(1)


def test_nothing_is_done_before_the_bootstrap() -> None:
    scribe = Scribe()
    assert isinstance(scribe.refused(register(1)), Unavailable)
    assert isinstance(scribe.refused(create("t", 1)), Unavailable)
    assert scribe.tell(BOOTSTRAP) == 3
    assert scribe.tell(register(1)) == 4


def test_a_cluster_is_bootstrapped_once() -> None:
    scribe = cluster()
    scribe.tell(BOOTSTRAP)
    assert isinstance(scribe.refused(replace(BOOTSTRAP, cluster_id=UUID(int=9))), InvalidArgument)
    assert isinstance(scribe.refused(Bootstrap(BOOTSTRAP.cluster_id, SEEDS[:2], 1, 1_000)), InvalidArgument)
    assert scribe.state.bootstrap == BOOTSTRAP


def test_a_start_raises_the_boot_epoch_and_an_old_copy_is_refused() -> None:
    scribe = cluster()
    version = scribe.tell(register(1, epoch=4, port=9100))
    assert scribe.state.broker(ONE).boot_epoch == 4
    assert scribe.state.broker(ONE).version == version
    assert "old copy" in str(scribe.refused(register(1, epoch=3)))
    assert scribe.state.broker(ONE).addresses.http == "h1:9100"


def test_the_same_start_can_be_repeated_but_not_by_two_processes() -> None:
    scribe = cluster()
    version = scribe.tell(register(1, epoch=4))
    assert scribe.tell(register(1, epoch=4)) == version
    for other in (register(1, epoch=4, port=9500), register(1, epoch=4, host="elsewhere")):
        assert isinstance(scribe.refused(other), IdentityRefused)


def test_a_node_id_belongs_to_a_disk() -> None:
    scribe = cluster()
    assert isinstance(scribe.refused(register(1, 77)), IdentityRefused)
    assert isinstance(scribe.refused(register(1, 77, replaces=78)), IdentityRefused)
    assert isinstance(scribe.refused(register(6, 1)), IdentityRefused), "a copied disk under another node id"
    scribe.tell(register(6, 6))
    assert isinstance(scribe.refused(register(7, 8, replaces=6)), IdentityRefused), "that of another node"


def test_a_seed_has_its_node_id_before_it_registers() -> None:
    scribe = cluster(brokers=1)
    assert isinstance(scribe.refused(register(2, 77)), IdentityRefused)
    assert isinstance(scribe.refused(register(7, 2)), IdentityRefused)
    scribe.tell(register(2, 77, replaces=2))
    assert isinstance(scribe.refused(register(2)), IdentityRefused)
    scribe.tell(RemoveBroker(NodeId(3), disk(3)))
    scribe.tell(register(3, 33))


def test_a_replaced_disk_never_comes_back_and_the_new_one_has_its_replicas() -> None:
    scribe = cluster()
    scribe.tell(create("t", 1, (1, 2, 3), (2, 3, 4), (4, 5, 1)))
    replaced = Index(scribe.tell(register(1, 71, replaces=1)))
    assert scribe.tell(register(1, 71, replaces=1)) == scribe.state.broker(ONE).version, "said again"
    assert isinstance(scribe.refused(register(1, epoch=99)), IdentityRefused)
    assert isinstance(scribe.refused(register(9, 1)), IdentityRefused)
    assert scribe.state.load(replica(1)).replicas == 0
    assert scribe.state.load(replica(1, 71)) == (2, 1)
    assert scribe.state.broker_of(replica(1)) is None
    assert scribe.state.replicas_of(scribe.state.topic("t")) == [
        (replica(1, 71), replica(2), replica(3)),
        (replica(2), replica(3), replica(4)),
        (replica(4), replica(5), replica(1, 71)),
    ]
    assert created_on(scribe.state, replica(1, 71)) == [], "it begins empty, and its leaders fill it"
    assert [row.version for row in scribe.state.moved] == [replaced] * 2
    assert isinstance(scribe.refused(create("u", 2, (1, 2))), UnknownBroker)
    moved = (replica(4), replica(2), replica(1, 71))
    scribe.tell(SetAssignment(topic_id(1), 0, moved, replaced))


def test_a_broker_is_removed_once_it_holds_nothing() -> None:
    scribe = cluster()
    scribe.tell(create("t", 1, (1, 2, 3)))
    assert isinstance(scribe.refused(RemoveBroker(ONE, disk(1))), ChangeRefused)
    assert isinstance(scribe.refused(RemoveBroker(ONE, disk(2))), UnknownBroker)
    scribe.tell(DeleteTopic("t", topic_id(1)))
    scribe.tell(UpdateBroker(ONE, disk(1), True))
    scribe.tell(RemoveBroker(ONE, disk(1)))
    assert isinstance(scribe.refused(RemoveBroker(ONE, disk(1))), UnknownBroker)
    assert isinstance(scribe.refused(register(1, epoch=9)), IdentityRefused)
    scribe.tell(register(1, 71))
    with pytest.raises(UnknownBroker):
        scribe.state.broker(NodeId(9))


def test_draining_is_remembered_over_starts_and_takes_no_new_replicas() -> None:
    scribe = cluster()
    version = scribe.state.broker(ONE).version
    assert isinstance(scribe.refused(UpdateBroker(ONE, disk(1), True, Index(version + 1))), VersionConflict)
    assert isinstance(scribe.refused(UpdateBroker(ONE, disk(2), True)), UnknownBroker)
    version = Index(scribe.tell(UpdateBroker(ONE, disk(1), True, version)))
    assert scribe.tell(UpdateBroker(ONE, disk(1), True, version)) == version
    scribe.tell(register(1, epoch=2))
    assert scribe.state.broker(ONE).is_draining
    assert [candidate.replica.node_id for candidate in scribe.state.candidates()] == [2, 3, 4, 5]
    scribe.tell(register(1, epoch=3, draining=False))
    assert len(scribe.state.candidates()) == 5


def test_producer_ids_are_given_away_once_and_only_to_the_process_of_now() -> None:
    scribe = cluster()
    assert scribe.tell(AllocateProducerIds(ONE, disk(1), 1, 1_000)) == 0
    assert scribe.tell(AllocateProducerIds(NodeId(2), disk(2), 1, 5)) == 1_000
    scribe.tell(register(1, epoch=2))
    assert isinstance(scribe.refused(AllocateProducerIds(ONE, disk(1), 1, 5)), IdentityRefused)
    assert isinstance(scribe.refused(AllocateProducerIds(NodeId(9), disk(9), 1, 5)), UnknownBroker)
    assert scribe.tell(AllocateProducerIds(ONE, disk(1), 2, 1)) == 1_005
    scribe.state.next_producer_id = NUMBER_MAX - 3
    assert isinstance(scribe.refused(AllocateProducerIds(ONE, disk(1), 2, 4)), InvalidArgument)
    assert scribe.tell(AllocateProducerIds(ONE, disk(1), 2, 3)) == NUMBER_MAX - 3


def test_the_feature_level_rises_when_all_support_the_next() -> None:
    scribe = cluster()
    unknown = FEATURE_LEVEL_KNOWN + 1
    assert isinstance(scribe.refused(register(6, levels=(2, 3))), InvalidArgument)
    assert isinstance(scribe.refused(SetFeatureLevel(unknown)), InvalidArgument)
    assert scribe.tell(SetFeatureLevel(1)) == scribe.last_index
    for node in range(1, 6):
        scribe.tell(register(node, epoch=2, levels=(1, unknown)))
    request = scribe.request(SetFeatureLevel(unknown))
    before = scribe.state.state_hash()
    with pytest.raises(FormatError, match="newer release"):
        scribe.state.apply(request, Index(scribe.last_index + 1))
    assert scribe.state.state_hash() == before, "a replica that cannot follow stops as it is"
    with patch.object(broker_rules, "FEATURE_LEVEL_KNOWN", unknown):
        scribe.tell(SetFeatureLevel(unknown))
    assert scribe.state.feature_level == unknown
    assert isinstance(scribe.refused(SetFeatureLevel(1)), InvalidArgument)
    assert isinstance(scribe.refused(register(6, levels=(1, 1))), InvalidArgument)


def test_a_seed_that_never_came_keeps_the_feature_level_where_it_is() -> None:
    scribe = cluster(brokers=2)
    for node in (1, 2):
        scribe.tell(register(node, epoch=2, levels=(1, 2)))
    with patch.object(broker_rules, "FEATURE_LEVEL_KNOWN", 2):
        assert isinstance(scribe.refused(SetFeatureLevel(2)), ChangeRefused)
        scribe.tell(RemoveBroker(NodeId(3), disk(3)))
        scribe.tell(SetFeatureLevel(2))
