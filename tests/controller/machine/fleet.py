"""A cluster for testing commands: brokers 1 to 5 on one host each, and a log that applies requests in order."""

from uuid import UUID

from raftlog.errors import RaftlogError
from raftlog.partitions.controller.machine import (
    Addresses,
    Bootstrap,
    Command,
    CommandAnswer,
    CommandRequest,
    ControllerState,
    CreateTopic,
    GroupName,
    RegisterBroker,
    decode_request,
    encode_request,
    settings_of,
)
from raftlog.raft import ReplicaId
from raftlog.types import Index, NodeId

CLUSTER_ID = UUID(int=0xC1)


def disk_uuid(number: int) -> UUID:
    return UUID(int=0xD000 + number)


def topic_id(number: int) -> UUID:
    return UUID(int=0x7000 + number)


def replica(node: int, disk_number: int | None = None) -> ReplicaId:
    return ReplicaId(NodeId(node), disk_uuid(node if disk_number is None else disk_number))


SEEDS = (replica(1), replica(2), replica(3))
BOOTSTRAP = Bootstrap(CLUSTER_ID, SEEDS, 1, 1_000)


def register(
    node: int,
    disk_number: int | None = None,
    epoch: int = 1,
    *,
    host: str | None = None,
    port: int = 9000,
    kafka: tuple[tuple[str, str], ...] = (),
    levels: tuple[int, int] = (1, 1),
    draining: bool | None = None,
    replaces: int | None = None,
) -> RegisterBroker:
    return RegisterBroker(
        NodeId(node),
        disk_uuid(node if disk_number is None else disk_number),
        epoch,
        host or f"host-{node}",
        Addresses(f"h{node}:{port}", f"h{node}:{port + 2}", "", kafka),
        *levels,
        draining,
        None if replaces is None else disk_uuid(replaces),
    )


def create(name: str, number: int, *placed: tuple[int, ...], configs: dict[str, str] | None = None) -> CreateTopic:
    """Return a topic whose replicas are on the named nodes, one tuple for each partition."""
    rows = tuple(tuple(replica(node) for node in nodes) for nodes in placed or ((1, 2, 3),))
    return CreateTopic(name, topic_id(number), rows, settings_of(configs or {}), 5_000, name.startswith("__"))


class CommandLog:
    """Log of encoded requests that are applied to one state; a refusal must leave the state unchanged."""

    def __init__(self) -> None:
        self.state = ControllerState()
        self.log: list[tuple[Index, bytes]] = []

    @property
    def last_index(self) -> Index:
        return self.log[-1][0] if self.log else Index(0)

    def request(self, command: Command) -> CommandRequest:
        return CommandRequest(UUID(int=len(self.log) + 1), self.state.applied_index, command)

    def put(self, request: CommandRequest) -> CommandAnswer:
        index = Index(self.last_index + 1)
        body = encode_request(request)
        self.log.append((index, body))
        return self.state.apply(decode_request(body), index)

    def apply(self, command: Command) -> int:
        return self.put(self.request(command)).result()

    def apply_refused(self, command: Command) -> RaftlogError:
        """Apply a command that must fail; return its error after checking that the readable state did not change."""
        before = state_contents(self.state)
        answer = self.put(self.request(command))
        assert answer.error is not None, f"{command} was applied"
        assert state_contents(self.state) == before
        return answer.error


def state_contents(state: ControllerState) -> object:
    """Return the whole state except the answers to requests, with the data derived from its tables."""
    replicas = sorted({row.replica for row in state.brokers} | {replica(node) for node in range(1, 6)})
    return (
        state.bootstrap,
        state.feature_level,
        state.next_producer_id,
        [sorted(map(repr, table)) for table in state.tables()[:-1]],
        [table.digest for table in state.tables()[:-1]],
        state.topic_names(),
        [(state.load(each), state.groups_of(each)) for each in replicas],
        state.group_count(),
    )


def make_cluster(brokers: int = 5) -> CommandLog:
    """Return the log of a bootstrapped cluster with the first brokers registered."""
    scribe = CommandLog()
    scribe.apply(BOOTSTRAP)
    for node in range(1, brokers + 1):
        scribe.apply(register(node))
    return scribe


def replay(log: list[tuple[Index, bytes]], state: ControllerState | None = None) -> ControllerState:
    """Apply the log entries that this state has not applied yet."""
    state = state or ControllerState()
    for index, body in log:
        if index > state.applied_index:
            state.apply(decode_request(body), index)
    return state


def groups_created_on(state: ControllerState, wanted: ReplicaId) -> list[GroupName]:
    """Return the Raft groups that this replica creates from their first rolls, since their creation names it."""
    return [
        GroupName(topic.topic_id, partition)
        for topic in sorted(state.topics, key=lambda topic: topic.topic_id)
        for partition, replicas in enumerate(topic.creation.partitions)
        if wanted in replicas
    ]
