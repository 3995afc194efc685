"""The transport over the simulated network: copied payloads, and delivery by datagrams and streams."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

from jepsen.simulation import Node, SimulatedNetwork, VirtualLoop
from jepsen.simulation.network.transport import SimulatedTransport, freeze
from jepsen.simulation.options import generator
from raftlog.errors import Unavailable
from raftlog.raft import Entry, EntryId, EntryKind, ReplicaId
from raftlog.raft.messages import AppendRequest
from raftlog.runtime.transport import Envelope, ProcessHeartbeat
from raftlog.types import Index, NodeId, Term

KEY = bytes(16)

BEAT = ProcessHeartbeat(uuid.UUID(int=1), 1, 2)


class RecordingDriver:
    """Fake driver that records its input."""

    def __init__(self) -> None:
        self.got: list[Any] = []

    def receive(self, node: NodeId, envelopes: Sequence[Envelope]) -> None:
        self.got.append((node, list(envelopes)))

    def receive_heartbeat(self, node: NodeId, heartbeat: ProcessHeartbeat) -> None:
        self.got.append((node, heartbeat))

    async def serve(self, node: NodeId, request: object) -> object:
        if request == "refuse":
            raise Unavailable("not here")
        return node, memoryview(b"answer to " + str(request).encode())


class Pair:
    """Two nodes and their transports."""

    def __init__(self, loop: VirtualLoop, streams: bool) -> None:
        self.loop = loop
        self.network = SimulatedNetwork(loop, generator("wiring"))
        self.nodes = {NodeId(number): loop.add_node(f"n{number}") for number in (1, 2)}
        self.drivers = {number: RecordingDriver() for number in self.nodes}
        self.watched: list[Envelope] = []
        self.transports = {number: self.connect(number, node, streams) for number, node in self.nodes.items()}

    def connect(self, number: NodeId, node: Node, streams: bool) -> SimulatedTransport:
        self.network.attach(node)
        process = node.start()
        transport = SimulatedTransport(self.network, process, self.nodes, streams=streams, watch=self.watched.extend)
        process.call_soon(transport.deliver_to, self.drivers[number])
        return transport

    def run(self, call: Any) -> None:
        """Run the call in the first node's process."""
        self.nodes[NodeId(1)].running_process().call_soon(call)
        self.loop.run_for(1)

    def ask(self, request: object) -> Any:
        """Send a request from node 1 to node 2; return the answer or the error."""
        answers: list[Any] = []

        async def asking() -> None:
            try:
                answers.append(await self.transports[NodeId(1)].request(NodeId(2), request))
            except (OSError, TimeoutError) as error:
                answers.append(error)

        self.nodes[NodeId(1)].running_process().spawn(asking())
        self.loop.run_for(10)
        return answers[0]


@pytest.fixture(params=[False, True], ids=["datagrams", "streams"])
def pair(request: pytest.FixtureRequest, loop: VirtualLoop) -> Pair:
    return Pair(loop, request.param)


def append(payload: bytearray) -> Envelope:
    ids = [ReplicaId(NodeId(number), uuid.UUID(int=number)) for number in (1, 2)]
    entry = Entry(Index(1), Term(1), EntryKind.DATA, len(payload), payload)
    origin = EntryId(Index(0), Term(0))
    return Envelope(KEY, AppendRequest(*ids, Term(1), 1, origin, (entry,), Index(0)))


def test_messages_and_beats_arrive_and_are_reported_to_the_watcher(pair: Pair) -> None:
    transport, payload = pair.transports[NodeId(1)], bytearray(b"batch")
    pair.run(lambda: transport.send(NodeId(2), [append(payload)]))
    pair.run(lambda: transport.send_heartbeat(NodeId(2), BEAT))
    assert pair.drivers[NodeId(2)].got == [(1, [append(bytearray(b"batch"))]), (1, BEAT)]
    assert len(pair.watched) == 1


def test_changes_of_a_senders_buffers_are_not_visible(pair: Pair) -> None:
    payload = bytearray(b"before")

    def send() -> None:
        pair.transports[NodeId(1)].send(NodeId(2), [append(payload)])
        payload[:] = b"after!"

    pair.run(send)
    ((_, (envelope,)),) = pair.drivers[NodeId(2)].got
    assert envelope.message.entries[0].payload == b"before"


def test_bulk_requests_are_answered_refused_or_time_out(pair: Pair) -> None:
    assert pair.ask("entries") == (1, b"answer to entries")
    assert "not here" in str(pair.ask("refuse"))
    pair.network.cut(pair.nodes[NodeId(2)], pair.nodes[NodeId(1)])
    assert isinstance(pair.ask("entries"), OSError)
    pair.nodes[NodeId(2)].crash()
    pair.network.heal()
    assert isinstance(pair.ask("entries"), ConnectionRefusedError)


def test_a_broken_stream_is_reopened(loop: VirtualLoop) -> None:
    pair = Pair(loop, streams=True)
    send = lambda: pair.transports[NodeId(1)].send_heartbeat(NodeId(2), BEAT)  # noqa: E731 - called many times
    pair.run(send)
    pair.network.reset_streams(pair.nodes[NodeId(1)], pair.nodes[NodeId(2)])
    loop.run_for(5)
    pair.run(send)
    pair.run(send)
    assert len(pair.drivers[NodeId(2)].got) >= 2


def test_buffers_at_any_depth_of_a_value_are_frozen() -> None:
    class Named(NamedTuple):
        data: object

    @dataclass
    class Record:
        data: object

    value = {"a": [Named(bytearray(b"1")), Record((memoryview(b"2"), 3))]}
    copy = freeze(value)
    assert copy == {"a": [Named(b"1"), Record((b"2", 3))]}
    assert type(copy["a"][0].data) is type(copy["a"][1].data[0]) is bytes
