"""Random commands compared with a naive model; replicas, repetitions and snapshots must give the same state."""

from collections.abc import Iterator
from unittest.mock import patch
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raftlog.partitions.controller.machine import (
    Command,
    CommandAnswer,
    CommandRequest,
    ControllerState,
    GroupName,
    SetFeatureLevel,
    SnapshotReader,
    security_rules,
    snapshot_payloads,
    state,
)
from raftlog.types import Index, NodeId
from tests.controller.machine.fleet import BOOTSTRAP, CommandLog, create, register, replay, replica, state_contents
from tests.controller.machine.model import Model
from tests.controller.machine.strategies import commands, set_current_names

ANSWERS_MAX = 6
ROWS_MAX = 2
"""Limit of users and of entities with quotas, and the half of that of entries of access control."""
Step = tuple[Command, int]
levels = st.integers(1, 3)
steps = st.lists(st.tuples(commands, st.sampled_from([0] * 9 + [1, 2, 9])), min_size=15, max_size=45)
"""A command, and how many requests ago the one was that is proposed again instead; 0: it is a new one."""


@pytest.fixture(autouse=True, scope="module")
def _short_memory() -> Iterator[None]:
    """Provide a release with low limits."""
    with (
        patch.object(state, "ANSWERS_MAX", ANSWERS_MAX),
        patch.object(security_rules, "USERS_MAX", ROWS_MAX),
        patch.object(security_rules, "ACLS_MAX", 2 * ROWS_MAX),
        patch.object(security_rules, "QUOTAS_MAX", ROWS_MAX),
    ):
        yield


def first_commands(level: int) -> list[Command]:
    """Return the first commands of a cluster whose brokers support this level; above level 1 it is raised."""
    topics = [create("a", 1, (1, 2, 3), (3, 4, 5)), create("b", 2, (4, 5))]
    brokers = [register(node, levels=(1, level)) for node in range(1, 6)]
    return [BOOTSTRAP, *brokers, *topics, SetFeatureLevel(level if level == 3 else 1)]


def outcome_of(answer: CommandAnswer) -> object:
    return answer.value if answer.error is None else type(answer.error).__name__


def check(controller: ControllerState, model: Model) -> None:
    """Check that all queries of the state machine return the contents of the model."""
    data = model.data
    assert {
        row.node_id: (row.disk_uuid, row.boot_epoch, row.is_draining, row.version) for row in controller.brokers
    } == {node: (row["disk"], row["epoch"], row["draining"], row["version"]) for node, row in data["brokers"].items()}
    assert {row.disk_uuid: row.node_id for row in controller.retired} == data["retired"]
    assert {row.topic_id for row in controller.deleted} == data["deleted"]
    assert controller.topic_names() == sorted(topic["name"] for topic in data["topics"].values())
    assert controller.next_producer_id == data["producer_id"]
    assert controller.feature_level == data["level"]
    assert {row.node_id: (row.is_on, row.version) for row in controller.maintenance} == data["maintenance"]
    assert {
        row.name: {
            "credentials": {each.mechanism: each for each in row.credentials},
            "super": row.is_superuser,
            "version": row.version,
        }
        for row in controller.users
    } == data["users"]
    assert {row.entry.key: row.version for row in controller.acls} == data["acls"]
    assert {row.entity: (dict(row.quotas), row.version) for row in controller.client_quotas} == data["quotas"]
    assert [row.secret for row in controller.secrets] == [data["secret"]] * bool(data["secret"])
    assert [(dict(row.configs), row.version) for row in controller.settings] in ([data["settings"]], [])
    assert len(controller.settings) == bool(data["settings"][1])
    reluctant = {node for node, row in data["brokers"].items() if row["draining"]}
    reluctant |= {node for node, (is_on, _) in data["maintenance"].items() if is_on}
    assert {node for node in range(1, 6) if controller.is_excluded(NodeId(node))} == reluctant
    there = data["brokers"].keys() - reluctant
    assert [each.replica.node_id for each in controller.candidates()] == sorted(there)
    assert controller.forgotten_index == model.forgotten
    for topic_id, topic in data["topics"].items():
        found = controller.topic(topic["name"])
        assert (found.topic_id, found.version, dict(found.configs)) == (topic_id, topic["version"], topic["configs"])
        for partition, replicas in enumerate(topic["now"]):
            assignment = controller.assignment(GroupName(topic_id, partition))
            assert (assignment.replicas, assignment.version) == (replicas, topic["versions"][partition])
        created = tuple(data["created"][topic_id, partition] for partition in range(len(topic["now"])))
        assert found.first_replicas == created == tuple(origin.replicas for origin in found.origins())
        assert [found.origin(partition) for partition in range(len(created))] == list(found.origins())
        names = [controller.group(GroupName(topic_id, number).group_id) for number in range(len(created))]
        assert names == [GroupName(topic_id, number) for number in range(len(created))]
    groups = [group for topic in data["topics"].values() for group in topic["now"]]
    assert controller.group_count() == len(groups)
    assert all(row.topic_id in data["topics"] for row in controller.moved)
    for node in range(1, 6):
        mine = tuple(replica(node))
        load = (sum(mine in group for group in groups), sum(mine == group[0] for group in groups))
        assert controller.load(replica(node)) == load
        assert len(controller.groups_of(replica(node))) == load[0]


def restore_snapshot(controller: ControllerState, piece_bytes: int) -> ControllerState:
    reader = SnapshotReader()
    *first, last = list(snapshot_payloads(controller, Index(1), piece_bytes))
    assert [reader.take(payload) for payload in first] == [None] * len(first)
    restoration = reader.take(last)
    assert restoration is not None
    return restoration.finish()


@settings(max_examples=70)
@given(steps, st.integers(0, 9).map(bool), levels)
def test_every_answer_equals_that_of_the_model(drawn: list[Step], is_started: bool, level: int) -> None:
    scribe, model = CommandLog(), Model(ANSWERS_MAX, ROWS_MAX)
    requests: list[CommandRequest] = []
    for command, ago in [(command, 0) for command in first_commands(level) if is_started] + drawn:
        if ago and len(requests) >= ago:
            request = requests[-ago]
        else:
            request = scribe.request(set_current_names(command, scribe.state))
            requests.append(request)
        before = state_contents(scribe.state)
        answer = scribe.put(request)
        assert outcome_of(answer) == model.apply(request, scribe.last_index)
        if answer.error is not None or answer.is_repeated:
            assert state_contents(scribe.state) == before
        check(scribe.state, model)


@settings(max_examples=40)
@given(steps, st.data(), levels)
def test_replicas_agree_and_a_snapshot_at_any_point_changes_nothing(
    drawn: list[Step], data: st.DataObject, level: int
) -> None:
    scribe = CommandLog()
    for command in [*first_commands(level), *(command for command, _ in drawn)]:
        scribe.put(scribe.request(set_current_names(command, scribe.state)))
    assert replay(scribe.log).state_hash() == scribe.state.state_hash()
    cut = data.draw(st.integers(0, len(scribe.log)))
    middle = replay(scribe.log[:cut])
    copy = restore_snapshot(middle, data.draw(st.integers(1, 400)))
    assert copy.state_hash() == middle.state_hash()
    assert state_contents(copy) == state_contents(middle)
    rest = [scribe.state, middle, copy]
    for replica_state in rest[1:]:
        replay(scribe.log, replica_state)
    assert len({each.state_hash() for each in rest}) == 1
    assert len({b"".join(snapshot_payloads(each, Index(1))) for each in rest}) == 1
    assert state_contents(copy) == state_contents(scribe.state)


@settings(max_examples=40)
@given(steps, levels)
def test_the_hash_distinguishes_states(drawn: list[Step], level: int) -> None:
    scribe = CommandLog()
    seen: dict[bytes, object] = {}
    for command, _ in [*((command, 0) for command in first_commands(level)), *drawn]:
        scribe.put(CommandRequest(UUID(int=1), scribe.state.applied_index, set_current_names(command, scribe.state)))
        for row in list(scribe.state.answered):
            scribe.state.answered.remove(row.request_id)
        scribe.state.applied_index = Index(0)
        scribe.log.clear()
        found = state_contents(scribe.state)
        assert seen.setdefault(scribe.state.state_hash(), found) == found
