"""The wire over real sockets of loopback: datagrams, streams, and peers that break its rules."""

import asyncio
import struct
from collections.abc import AsyncIterator

import pytest

from raftlog.membership.wire import DATAGRAM_BYTES_MAX, FRAME_BYTES_MAX, STREAMS_MAX, GossipStream, StreamEnd, UdpWire
from tests.waiting import until

HOST = "127.0.0.1"
WAIT_S = 10.0


@pytest.fixture
async def wires() -> AsyncIterator[list[UdpWire]]:
    made = [UdpWire(), UdpWire()]
    for wire in made:
        await wire.start(HOST, 0)
    yield made
    for wire in made:
        await wire.close()


async def serve_echo(stream: GossipStream) -> None:
    while True:
        await stream.send(await stream.receive())


def address_of(wire: UdpWire) -> tuple[str, int]:
    assert wire.address is not None
    return wire.address


async def test_a_datagram_arrives_with_the_address_of_its_sender(wires: list[UdpWire]) -> None:
    one, other = wires
    arrived: asyncio.Future[tuple[bytes, tuple[str, int]]] = asyncio.get_running_loop().create_future()
    other.on_datagram = lambda data, sender: arrived.set_result((data, sender))
    one.send(b"x" * DATAGRAM_BYTES_MAX, address_of(other))
    async with asyncio.timeout(WAIT_S):
        assert await arrived == (b"x" * DATAGRAM_BYTES_MAX, one.address)


async def test_a_datagram_without_a_receiver_or_of_another_family_raises_nothing(wires: list[UdpWire]) -> None:
    wires[0].send(b"x", (HOST, 1))
    wires[0].send(b"x", ("::1", 9))
    wires[0].send(b"x", ("no.such.host.invalid", 9))
    heard: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    wires[1].on_datagram = lambda datagram, sender: heard.set_result(datagram)
    wires[0].send(b"next", address_of(wires[1]))
    assert await asyncio.wait_for(heard, 10) == b"next", "the wire goes on"


async def test_udp_and_tcp_share_a_port_and_frames_are_echoed(wires: list[UdpWire]) -> None:
    wires[1].serve = serve_echo
    stream = await wires[0].open(address_of(wires[1]))
    for frame in (b"", b"one", bytes(FRAME_BYTES_MAX)):
        await stream.send(frame)
        assert await stream.receive() == frame
    stream.close()


async def test_a_length_past_the_bound_ends_the_stream_before_the_frame(wires: list[UdpWire]) -> None:
    wires[1].serve = serve_echo
    reader, writer = await asyncio.open_connection(*address_of(wires[1]))
    writer.write(struct.pack(">I", FRAME_BYTES_MAX + 1))
    async with asyncio.timeout(WAIT_S):
        assert await reader.read() == b""
    writer.close()


async def test_a_stream_that_ends_early_raises(wires: list[UdpWire]) -> None:
    stream = await wires[0].open(address_of(wires[1]))  # which serves no stream
    with pytest.raises((StreamEnd, ConnectionError)):
        await stream.receive()
    stream.close()


async def test_served_streams_are_bounded(wires: list[UdpWire]) -> None:
    wires[1].serve = serve_echo
    streams = [await wires[0].open(address_of(wires[1])) for _ in range(STREAMS_MAX)]
    for stream in streams:
        await stream.send(b"x")
        await stream.receive()
    one_more = await wires[0].open(address_of(wires[1]))
    with pytest.raises((StreamEnd, ConnectionError)):
        await one_more.receive()
    assert wires[1].streams_refused == 1
    for stream in [*streams, one_more]:
        stream.close()


async def test_closing_ends_a_stream_that_is_open(wires: list[UdpWire]) -> None:
    wires[1].serve = serve_echo
    stream = await wires[0].open(address_of(wires[1]))
    await stream.send(b"x")
    await stream.receive()
    await wires[1].close()
    with pytest.raises((StreamEnd, ConnectionError)):
        await stream.receive()
    stream.close()


async def test_a_port_that_is_taken_is_an_error(wires: list[UdpWire]) -> None:
    third = UdpWire()
    with pytest.raises(OSError):
        await third.start(*address_of(wires[0]))


async def test_a_host_name_is_resolved_in_the_background(wires: list[UdpWire]) -> None:
    one, other = wires
    arrived: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    other.on_datagram = lambda data, sender: arrived.done() or arrived.set_result(data)

    def has_arrived() -> bool:
        """Send once more, since the first datagram only starts the resolution."""
        one.send(b"x", ("localhost", address_of(other)[1]))
        return arrived.done()

    await until(has_arrived)
    assert arrived.result() == b"x"
