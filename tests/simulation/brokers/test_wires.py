"""Connections of asyncio over the simulated network: order, back-pressure, ends, and addresses of hosts."""

import asyncio
import socket
from collections.abc import Iterator
from typing import Any, cast

import pytest

from jepsen.simulation import SimulatedNetwork
from jepsen.simulation.brokers.wires import SOCKET_BYTES, ListeningPort, WiredLoop
from jepsen.simulation.node import Node
from jepsen.simulation.options import generator

PORT = 7


class End(asyncio.BufferedProtocol):
    """Protocol that records its callbacks and accepts a few bytes at a time."""

    def __init__(self) -> None:
        self.transport: Any = None
        self.got = bytearray()
        self.events: list[str] = []
        self._memory = bytearray(5)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.events.append("made")

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._memory

    def buffer_updated(self, nbytes: int) -> None:
        self.got += self._memory[:nbytes]

    def pause_writing(self) -> None:
        self.events.append("paused")

    def resume_writing(self) -> None:
        self.events.append("resumed")

    def eof_received(self) -> bool:
        self.events.append("eof")
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.events.append(f"lost {type(exc).__name__}")


class Pair:
    """Two hosts, of which the second listens."""

    def __init__(self) -> None:
        self.loop = WiredLoop()
        self.network = SimulatedNetwork(self.loop, generator("wires"))
        self.nodes = [self.loop.add_node(name) for name in ("n1", "n2")]
        for node in self.nodes:
            self.network.attach(node)
            node.start()
        self.loop.wire(self.network, self.nodes)
        self.near, self.far = End(), End()
        self.errors: list[BaseException] = []

    def connect(self) -> None:
        self._run(self.nodes[1], self._accept())
        self._run(self.nodes[0], self._connect())
        self.loop.run_for(5)

    def _run(self, node: Node, work: Any) -> None:
        node.running_process().spawn(work)

    async def _connect(self) -> None:
        try:
            await self.loop.create_connection(lambda: self.near, "n2", PORT)
        except OSError as error:
            self.errors.append(error)

    async def _accept(self) -> None:
        port = ListeningPort(self.network, self.nodes[1].running_process(), ("n2", PORT))
        accepted, name = await self.loop.sock_accept(port)
        assert name[0] == "n1"
        await self.loop.connect_accepted_socket(lambda: self.far, accepted)

    def call(self, number: int, callback: Any, *arguments: Any) -> None:
        self.nodes[number].running_process().call_soon(callback, *arguments)
        self.loop.run_for(0.1)


@pytest.fixture
def pair() -> Iterator[Pair]:
    pair = Pair()
    yield pair
    pair.loop.close()


def test_bytes_arrive_in_order_both_ways(pair: Pair) -> None:
    pair.connect()
    pair.call(0, pair.near.transport.writelines, [b"hello ", bytearray(b"wide "), memoryview(b"world")])
    pair.call(0, pair.near.transport.write, b"!")
    pair.call(1, pair.far.transport.write, b"thanks")
    assert (bytes(pair.far.got), bytes(pair.near.got)) == (b"hello wide world!", b"thanks")
    assert pair.near.transport.get_extra_info("peername") == ("n2", PORT)


def test_the_last_writes_arrive_before_the_end(pair: Pair) -> None:
    pair.connect()

    def announce_stop() -> None:
        pair.near.transport.write(b"bye")
        pair.near.transport.close()
        pair.near.transport.write(b"never")

    pair.call(0, announce_stop)
    assert bytes(pair.far.got) == b"bye"
    assert pair.far.events == ["made", "eof", "lost NoneType"]
    assert pair.near.events == ["made", "lost NoneType"]


def test_a_reader_that_does_not_read_stops_the_writer(pair: Pair) -> None:
    pair.connect()
    pair.nodes[1].pause()
    pair.near.transport.set_write_buffer_limits(high=100)
    pair.call(0, pair.near.transport.write, bytes(SOCKET_BYTES + 101))
    assert pair.near.events == ["made", "paused"]
    assert pair.near.transport.get_write_buffer_size() == 101
    pair.nodes[1].resume()
    pair.loop.run_for(0.1)
    assert pair.near.events == ["made", "paused", "resumed"]


def test_a_crashed_peer_is_detected(pair: Pair) -> None:
    pair.connect()
    pair.nodes[1].crash()
    pair.loop.run_for(5)
    assert pair.near.events == ["made", "lost ConnectionResetError"]


def test_a_host_without_a_listener_refuses_and_an_isolated_one_does_not_answer(pair: Pair) -> None:
    pair._run(pair.nodes[0], pair._connect())
    pair.loop.run_for(1)
    assert [type(error) for error in pair.errors] == [ConnectionRefusedError]
    pair.network.cut(pair.nodes[1], pair.nodes[0])
    pair.connect()
    assert [type(error) for error in pair.errors] == [ConnectionRefusedError, TimeoutError]


def test_only_known_hosts_have_addresses(pair: Pair) -> None:
    async def ask(host: str) -> None:
        try:
            found = await pair.loop.getaddrinfo(host, None)
            pair.far.events.append(found[0][4][0])
        except OSError as error:
            pair.errors.append(error)

    pair._run(pair.nodes[0], ask("n2"))
    pair._run(pair.nodes[0], ask("elsewhere"))
    pair.loop.run_for(1)
    assert pair.far.events == ["10.0.0.1"]
    assert cast(socket.gaierror, pair.errors[0]).errno == socket.EAI_NONAME
