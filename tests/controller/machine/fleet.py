"""A cluster to try commands on: brokers 1 to 5 with a host each, and a log that applies one request after another."""

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


def disk(number: int) -> UUID:
    return UUID(int=0xD000 + number)


def topic_id(number: int) -> UUID:
    return UUID(int=0x7000 + number)


def replica(node: int, disk_number: int | None = None) -> ReplicaId:
    return ReplicaId(NodeId(node), disk(node if disk_number is None else disk_number))


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
        disk(node if disk_number is None else disk_number),
        epoch,
        host or f"host-{node}",
        Addresses(f"h{node}:{port}", f"h{node}:{port + 2}", "", kafka),
        *levels,
        draining,
        None if replaces is None else disk(replaces),
    )


def create(name: str, number: int, *placed: tuple[int, ...], configs: dict[str, str] | None = None) -> CreateTopic:
    """Return a topic whose replicas are on the named nodes, one tuple for each partition."""
    rows = tuple(tuple(replica(node) for node in nodes) for nodes in placed or ((1, 2, 3),))
    return CreateTopic(name, topic_id(number), rows, settings_of(configs or {}), 5_000, name.startswith("__"))


class Scribe:
    """Writes requests into a log and applies them, as bytes, to one state. Refusals must leave nothing behind."""

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

    def tell(self, command: Command) -> int:
        return self.put(self.request(command)).result()

    def refused(self, command: Command) -> RaftlogError:
        """Return the error of a command; check that the readable state did not change."""
        before = contents(self.state)
        answer = self.put(self.request(command))
        assert answer.error is not None, f"{command} was applied"
        assert contents(self.state) == before
        return answer.error


def contents(state: ControllerState) -> object:
    """Return the whole state without the answers to requests, with the data derived from the tables."""
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


def cluster(brokers: int = 5) -> Scribe:
    """Bootstrapped, and the first brokers registered."""
    scribe = Scribe()
    scribe.tell(BOOTSTRAP)
    for node in range(1, brokers + 1):
        scribe.tell(register(node))
    return scribe


def replay(log: list[tuple[Index, bytes]], state: ControllerState | None = None) -> ControllerState:
    """Apply the entries that the replica has not applied."""
    state = state or ControllerState()
    for index, body in log:
        if index > state.applied_index:
            state.apply(decode_request(body), index)
    return state


def created_on(state: ControllerState, wanted: ReplicaId) -> list[GroupName]:
    """Return the groups whose creation names this replica, which it makes itself from their first rolls."""
    return [
        GroupName(topic.topic_id, partition)
        for topic in sorted(state.topics, key=lambda topic: topic.topic_id)
        for partition, replicas in enumerate(topic.creation.partitions)
        if wanted in replicas
    ]
