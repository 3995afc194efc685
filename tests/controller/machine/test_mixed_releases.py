"""Replicas of this release and of a next one, whose SetMaintenance has one more field, apply the same log.

Below level 2 this release writes no addresses of Kafka listeners, so that replicas of the first release apply its
commands."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Annotated, Any
from unittest.mock import patch

import pytest

from raftlog.errors import FormatError, IdentityRefused, InvalidArgument
from raftlog.partitions.controller.machine import (
    Addresses,
    ControllerState,
    SetFeatureLevel,
    SetMaintenance,
    SnapshotReader,
    broker_rules,
    cluster,
    decode_request,
    encode_request,
    request,
    snapshot,
    snapshot_payloads,
    state,
)
from raftlog.partitions.controller.machine.cluster import ClusterState
from raftlog.partitions.controller.machine.rows import BrokerMaintenance
from raftlog.partitions.controller.machine.schema import text
from raftlog.types import FEATURE_LEVEL_KNOWN, Index, NodeId
from tests.controller.machine import fleet
from tests.controller.machine.fleet import CommandLog, create, disk_uuid, register

NEXT = FEATURE_LEVEL_KNOWN + 1
REASON = text("reason", 0, 255)


@dataclass(frozen=True, slots=True)
class NextMaintenance(SetMaintenance):
    """SetMaintenance of the next release, with a reason."""

    reason: Annotated[str, REASON, NEXT] = ""


@dataclass(frozen=True, slots=True)
class NextRow(BrokerMaintenance):
    """Maintenance row of the next release, with a reason."""

    reason: Annotated[str, REASON, NEXT] = ""


def apply_next_maintenance(controller: ClusterState, command: Any, index: Index) -> int:
    controller.maintenance.put(NextRow(command.node_id, command.is_on, index, command.reason))
    return index


@contextmanager
def next_release() -> Iterator[None]:
    """Run with the code of a release that knows one more level, in which maintenance can have a reason."""
    kind = request.KINDS[SetMaintenance]
    with ExitStack() as stack:
        for room in (broker_rules, snapshot):
            stack.enter_context(patch.object(room, "FEATURE_LEVEL_KNOWN", NEXT))
        stack.enter_context(patch.dict(request.KINDS, {NextMaintenance: kind}))
        stack.enter_context(patch.dict(request._BY_NUMBER, {kind.number: NextMaintenance}))
        stack.enter_context(patch.dict(state._RULES, {NextMaintenance: apply_next_maintenance}))
        stack.enter_context(patch.object(cluster, "BrokerMaintenance", NextRow))
        yield


@contextmanager
def this_release() -> Iterator[None]:
    """Run with the code of this release."""
    yield


Release = Callable[[], AbstractContextManager[None]]


def make_mixed_log(level: int, reason: str = "") -> list[tuple[Index, bytes]]:
    """Return the log of a cluster at a level, written by the next release; its last entry begins a maintenance."""
    with next_release():
        scribe = CommandLog()
        scribe.apply(fleet.BOOTSTRAP)
        for node in range(1, 6):
            scribe.apply(register(node, levels=(1, level)))
        scribe.apply(create("t", 1))
        if level > 1:
            scribe.apply(SetFeatureLevel(level))
        command = NextMaintenance(NodeId(2), disk_uuid(2), True, reason=reason)
        made = scribe.request(command)
        scribe.log.append((Index(scribe.last_index + 1), encode_request(made)))
    return scribe.log


def apply_log(log: list[tuple[Index, bytes]], release: Release) -> tuple[ControllerState, list[bytes]]:
    """Apply a log with the code of a release; return the state and its hash after each entry."""
    with release():
        replica, hashes = ControllerState(), []
        for index, body in log:
            replica.apply(decode_request(body), index)
            hashes.append(replica.state_hash())
        return replica, hashes


def test_without_the_new_field_both_releases_have_the_same_state_and_snapshot() -> None:
    log = make_mixed_log(1)
    ours, our_hashes = apply_log(log, this_release)
    theirs, their_hashes = apply_log(log, next_release)
    assert our_hashes == their_hashes
    assert ours.in_maintenance() == theirs.in_maintenance() == [2]
    pieces = list(snapshot_payloads(ours, Index(1)))
    with next_release():
        assert list(snapshot_payloads(theirs, Index(1))) == pieces
    for release in (this_release, next_release):
        with release():
            restoration = SnapshotReader().take(pieces[0])
            assert restoration is not None
            assert restoration.finish().state_hash() == our_hashes[-1]


def test_the_new_field_is_not_written_below_its_level() -> None:
    log = make_mixed_log(1, "new disk")
    replica, _ = apply_log(log[:-1], next_release)
    with next_release():
        made = decode_request(log[-1][1])
        with pytest.raises(InvalidArgument, match=rf"needs feature level {NEXT}.*finish the upgrade first"):
            request.check_level(made.command, replica.feature_level)
        refused = replica.apply(made, log[-1][0])
    assert isinstance(refused.error, InvalidArgument), "also where it stands in the log"
    assert replica.in_maintenance() == []


def test_a_replica_with_an_unknown_field_stops_and_the_others_continue() -> None:
    log = make_mixed_log(NEXT, "new disk")
    theirs, hashes = apply_log(log, next_release)
    assert len(set(hashes)) == len(log)
    assert theirs.maintenance[2] == NextRow(NodeId(2), True, log[-1][0], "new disk")
    with pytest.raises(FormatError, match="SetMaintenance has 4 fields in this release, and 5 here: run a newer"):
        decode_request(log[-1][1])
    with next_release():
        [piece] = snapshot_payloads(theirs, Index(1))
        restoration = SnapshotReader().take(piece)
        assert restoration is not None
        assert restoration.finish().state_hash() == hashes[-1]
    with pytest.raises(FormatError, match="run a newer release"):
        SnapshotReader().take(piece)


KAFKA = (("inside", "h1:9092"), ("outside", "[2001:db8::1]:9094"))


def make_cluster_at(level: int) -> CommandLog:
    """Return a cluster of this release, created at level 1 and raised to `level`."""
    scribe = fleet.make_cluster()
    for node in range(1, 6):
        scribe.apply(register(node, epoch=2, levels=(1, 2)))
    if level > 1:
        scribe.apply(SetFeatureLevel(level))
    return scribe


def test_kafka_addresses_are_refused_below_level_2() -> None:
    scribe = make_cluster_at(1)
    command = register(1, epoch=3, levels=(1, 2), kafka=KAFKA)
    with pytest.raises(InvalidArgument, match=r"RegisterBroker needs feature level 2.*finish the upgrade first"):
        request.check_level(command, scribe.state.feature_level)
    assert isinstance(scribe.apply_refused(command), InvalidArgument), "also where it stands in the log"
    scribe.apply(register(1, epoch=3, levels=(1, 2)))
    assert scribe.state.broker(NodeId(1)).pack()[4] == ["h1:9000", "h1:9002", ""], "as the first release writes it"


def test_a_running_broker_adds_kafka_addresses_once() -> None:
    scribe = make_cluster_at(2)
    before = scribe.state.broker(NodeId(1)).version
    version = scribe.apply(register(1, epoch=2, levels=(1, 2), kafka=KAFKA))
    assert version > before
    assert scribe.state.broker(NodeId(1)).addresses.kafka == KAFKA
    assert scribe.apply(register(1, epoch=2, levels=(1, 2), kafka=KAFKA)) == version
    for other in ((), KAFKA[:1]):
        refused = scribe.apply_refused(register(1, epoch=2, levels=(1, 2), kafka=other))
        assert isinstance(refused, IdentityRefused), "another process with a copy of the disk"
    assert isinstance(scribe.apply_refused(register(2, epoch=2, levels=(1, 2), port=7, kafka=KAFKA)), IdentityRefused)
    scribe.apply(register(1, epoch=3, levels=(1, 2)))
    assert scribe.state.broker(NodeId(1)).addresses.kafka == ()


def test_a_snapshot_contains_kafka_addresses() -> None:
    scribe = make_cluster_at(2)
    scribe.apply(register(1, epoch=2, levels=(1, 2), kafka=KAFKA))
    restoration = SnapshotReader().take(next(snapshot_payloads(scribe.state, Index(1))))
    assert restoration is not None
    restored = restoration.finish()
    assert restored.broker(NodeId(1)).addresses.kafka == KAFKA
    assert restored.state_hash() == scribe.state.state_hash()


@pytest.mark.parametrize(
    "kafka",
    [
        (("b", "h:1"), ("a", "h:2")),
        (("a", "h:1"), ("a", "h:2")),
        (("", "h:1"),),
        (("a" * 33, "h:1"),),
        (("a", ""),),
        (("a", "h" * 256),),
        (("a", "h\n:1"),),
        tuple((f"l{number}", "h:1") for number in range(9)),
        [("a", "h:1")],
    ],
)
def test_kafka_addresses_are_bounded(kafka: Any) -> None:
    with pytest.raises(InvalidArgument, match="Addresses: kafka"):
        Addresses("", "", "", kafka)
