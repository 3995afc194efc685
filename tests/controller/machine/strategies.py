"""Commands drawn by hypothesis from a small set of names, so that they conflict: five nodes, eight disks, four names.

`CURRENT` as an expected version, `CURRENT_COUNT` as a number of partitions, `ITS_NAME` as a name and `SOME_TOPIC` as a
uuid stand for what holds when a command is proposed (`aimed`): otherwise most commands would be refused.
"""

from dataclasses import replace
from typing import TypeAlias

from hypothesis import strategies as st

from raftlog.errors import RaftlogError
from raftlog.partitions.controller.machine import (
    AclEntry,
    AddPartitions,
    AllocateProducerIds,
    AlterClientQuotas,
    AlterClusterConfig,
    AlterTopicConfigs,
    Bootstrap,
    Command,
    ControllerState,
    CreateAcls,
    CreateTopic,
    DeleteAcls,
    DeleteTopic,
    DeleteUser,
    RegisterBroker,
    RemoveBroker,
    SetAssignment,
    SetFeatureLevel,
    SetMaintenance,
    SetUserCredentials,
    StoredCredential,
    UpdateBroker,
)
from raftlog.types import Index, NodeId
from tests.controller.machine.fleet import BOOTSTRAP, CLUSTER_ID, SEEDS, disk_uuid, register, replica, topic_id

Compared: TypeAlias = (
    UpdateBroker | AlterTopicConfigs | SetAssignment | SetMaintenance | AlterClusterConfig | DeleteUser
)
"""Commands with an expected version."""
CURRENT = Index(1 << 40)
CURRENT_COUNT = 9_999
ITS_NAME = "its-name"
SOME_TOPIC = topic_id(99)
NAMES = ("a", "b", "c", "__internal")
SETTINGS = (("flush.ms", "9"), ("min.insync.replicas", "2"), ("min.insync.replicas", "3"), ("retention.ms", "5"))

nodes = st.integers(1, 5)
mechanisms = st.integers(1, 2)
disks = st.integers(1, 8)
names = st.sampled_from(NAMES)
topic_ids = st.integers(1, 4).map(topic_id)
topic_ids_or_some = st.one_of(st.just(SOME_TOPIC), st.just(SOME_TOPIC), topic_ids)
names_or_its = st.sampled_from((ITS_NAME, ITS_NAME, ITS_NAME, ITS_NAME, "a"))
versions = st.sampled_from((CURRENT, CURRENT, CURRENT, Index(1)))
optional_versions = st.one_of(st.none(), versions)
members = st.builds(lambda node, number: replica(node, node if number < 8 else number), nodes, disks)
replica_sets = st.lists(members, min_size=1, max_size=4, unique_by=lambda member: member.node_id).map(tuple)
settings = st.lists(st.sampled_from(SETTINGS), max_size=2, unique_by=lambda pair: pair[0]).map(sorted).map(tuple)


@st.composite
def creations(draw: st.DrawFn) -> CreateTopic:
    factor = draw(st.integers(1, 4))
    rows = st.permutations(range(1, 6)).map(lambda order: tuple(map(replica, order[:factor])))
    placed = draw(st.lists(rows, min_size=1, max_size=3).map(tuple))
    name = draw(names)
    return CreateTopic(name, draw(topic_ids), placed, draw(settings), 7, name.startswith("__"))


@st.composite
def additions(draw: st.DrawFn) -> AddPartitions:
    factor = draw(st.integers(1, 3))
    rows = st.permutations(range(1, 6)).map(lambda order: tuple(map(replica, order[:factor])))
    placed = draw(st.lists(rows, min_size=1, max_size=2).map(tuple))
    count = draw(st.sampled_from((CURRENT_COUNT, CURRENT_COUNT, CURRENT_COUNT, 1)))
    return AddPartitions(draw(names_or_its), draw(topic_ids_or_some), count, placed, 9)


@st.composite
def registrations(draw: st.DrawFn) -> RegisterBroker:
    node = draw(nodes)
    number = draw(st.one_of(st.just(node), st.just(node), disks))
    return register(
        node,
        number,
        draw(st.integers(1, 4)),
        host=draw(st.sampled_from([f"host-{node}", "host-1"])),
        port=draw(st.sampled_from([9000, 9100])),
        kafka=draw(st.sampled_from([(), (), (("kafka", "h:1"),), (("inside", "h:2"), ("outside", "h:3"))])),
        levels=draw(st.sampled_from([(1, 3), (1, 3), (1, 1), (2, 2), (4, 4)])),
        draining=draw(st.sampled_from([None, None, True, False])),
        replaces=draw(st.one_of(st.none(), disks.filter(lambda other: other != number))),
    )


@st.composite
def alterations(draw: st.DrawFn) -> AlterTopicConfigs:
    configs = draw(settings) or (("flush.ms", "3"),)
    unset = {name for name, _ in SETTINGS} - {name for name, _ in configs}
    chosen = draw(st.lists(st.sampled_from(sorted(unset)), max_size=2, unique=True))
    return AlterTopicConfigs(
        draw(names_or_its), draw(topic_ids_or_some), configs, tuple(sorted(chosen)), draw(optional_versions)
    )


@st.composite
def cluster_alterations(draw: st.DrawFn) -> AlterClusterConfig:
    value = draw(st.sampled_from(("off", "on")))
    if draw(st.booleans()):
        return AlterClusterConfig((("balancer.mode", value),), (), draw(optional_versions))
    return AlterClusterConfig((), ("balancer.mode",), draw(optional_versions))


users = st.sampled_from(("alice", "bob", "carol"))
credentials = st.lists(
    st.builds(lambda number, key: StoredCredential(number, b"s", 4096, bytes([key]), b"k"), mechanisms, mechanisms),
    max_size=2,
    unique_by=lambda each: each.mechanism,
).map(lambda found: tuple(sorted(found, key=lambda each: each.mechanism)))


@st.composite
def user_changes(draw: st.DrawFn) -> SetUserCredentials:
    found = draw(credentials)
    is_removal = draw(st.booleans())
    removed = tuple(sorted({1, 2} - {each.mechanism for each in found})) if is_removal else ()
    flags: tuple[bool | None, ...] = (None, True, False) if found or removed else (True, False)
    is_superuser = draw(st.sampled_from(flags))
    secret = bytes([draw(st.integers(1, 3))]) * 32
    return SetUserCredentials(
        draw(users),
        found,
        removed,
        is_superuser,
        secret,
        draw(st.booleans()),
        draw(st.sampled_from((None, None, Index(0), Index(9)))),
    )


entries = st.lists(
    st.builds(
        AclEntry,
        st.integers(2, 3),
        st.integers(3, 4),
        st.sampled_from(("a", "*")),
        st.just("User:alice"),
        st.just("*"),
        st.integers(2, 3),
        st.integers(2, 3),
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda entry: entry.key,
).map(tuple)


@st.composite
def quota_changes(draw: st.DrawFn) -> AlterClientQuotas:
    entity = draw(st.sampled_from(((("user", "alice"),), (("user", ""),), (("client-id", "c"), ("user", "alice")))))
    named = draw(st.sampled_from(((), (("producer_byte_rate", "1"),), (("producer_byte_rate", "2"),))))
    unset = draw(st.sampled_from(((), ("consumer_byte_rate",)) if named else (("producer_byte_rate",),)))
    return AlterClientQuotas(entity, named, unset)


identities = st.one_of(nodes.map(replica), nodes.map(replica), st.builds(replica, nodes, disks))
commands: st.SearchStrategy[Command] = st.one_of(
    creations(),
    creations(),
    registrations(),
    registrations(),
    st.builds(DeleteTopic, names_or_its, topic_ids_or_some),
    alterations(),
    additions(),
    additions(),
    st.builds(SetAssignment, topic_ids_or_some, st.integers(0, 3), replica_sets, versions),
    st.builds(SetAssignment, topic_ids_or_some, st.just(0), replica_sets, st.just(CURRENT)),
    nodes.map(lambda node: UpdateBroker(NodeId(node), disk_uuid(node), True)),
    st.builds(lambda who, *what: UpdateBroker(*who, *what), identities, st.booleans(), optional_versions),
    identities.map(lambda who: RemoveBroker(*who)),
    st.builds(lambda who, *what: AllocateProducerIds(*who, *what), identities, st.integers(1, 2), st.integers(1, 9)),
    st.builds(SetFeatureLevel, st.integers(1, 3)),
    user_changes(),
    user_changes(),
    st.builds(DeleteUser, users, optional_versions),
    st.builds(CreateAcls, entries),
    st.builds(CreateAcls, entries),
    st.builds(DeleteAcls, entries),
    quota_changes(),
    nodes.map(lambda node: SetMaintenance(NodeId(node), disk_uuid(node), True)),
    st.builds(lambda who, *what: SetMaintenance(*who, *what), identities, st.booleans(), optional_versions),
    cluster_alterations(),
    st.sampled_from((BOOTSTRAP, Bootstrap(CLUSTER_ID, SEEDS[:2], 1, 1))),
)


def set_current_names(command: Command, state: ControllerState) -> Command:
    """Return the command with the current topic name, id and version in its fields, if it has such fields."""
    if (
        isinstance(command, AddPartitions | DeleteTopic | AlterTopicConfigs | SetAssignment)
        and command.topic_id == SOME_TOPIC
    ):
        known = sorted(topic.topic_id for topic in state.topics)
        command = replace(command, topic_id=known[0] if known else SOME_TOPIC)
    if isinstance(command, AddPartitions | DeleteTopic | AlterTopicConfigs) and command.name == ITS_NAME:
        topic = state.topics.get(command.topic_id)
        command = command if topic is None else replace(command, name=topic.name)
    if isinstance(command, AddPartitions) and command.partition_count == CURRENT_COUNT:
        topic = state.topics.get(command.topic_id)
        command = command if topic is None else replace(command, partition_count=topic.partition_count)
    if not isinstance(command, Compared) or command.expected_version != CURRENT:
        return command
    try:
        return replace(command, expected_version=_version(command, state))
    except RaftlogError:
        return command


def _version(command: Compared, state: ControllerState) -> Index:
    """Return the present version of what the command changes."""
    if isinstance(command, DeleteUser):
        user = state.users.get(command.name)
        return Index(0) if user is None else user.version
    if isinstance(command, SetMaintenance):
        row = state.maintenance.get(command.node_id)
        return Index(0) if row is None else row.version
    if isinstance(command, AlterClusterConfig):
        return state.settings.first().version if len(state.settings) else Index(0)
    if isinstance(command, UpdateBroker):
        return state.broker(command.node_id).version
    if isinstance(command, AlterTopicConfigs):
        return state.topic_by_id(command.topic_id).version
    return state.assignment(command.group).version
