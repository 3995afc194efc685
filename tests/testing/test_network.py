"""The proxy between brokers, with real transports on both sides."""

import asyncio
import os
import select
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from raftlog.runtime.rpc.calls import Answer, Call
from raftlog.runtime.rpc.errors import ConnectionLost, NoAnswer, NotConnected
from raftlog.runtime.rpc.handshake import encode_hello, pack_hello
from raftlog.testing.network import Network
from tests.rpc.processes import Process, RawPeer, hello_of, identity_of, run_processes, wait_until_connected

SHORT_MS = 200


@pytest.fixture
def network() -> Iterator[Network]:
    started = Network()
    yield started
    started.close()


@asynccontextmanager
async def pair(network: Network) -> AsyncIterator[tuple[Process, Process]]:
    """Provide nodes 1 and 2, connected through the proxy."""
    one, two = Process(identity_of(1)), Process(identity_of(2))
    async with run_processes(one, two):
        for process, other in ((one, two), (two, one)):
            host, port = network.add(other.node, other.address[1]).split(":")
            process.transport.set_addresses({other.node: (host, int(port))})
        await wait_until_both_connected(one, two)
        yield one, two


async def wait_until_both_connected(one: Process, two: Process) -> None:
    async with asyncio.timeout(15):
        await wait_until_connected(one, two.node)
        await wait_until_connected(two, one.node)


async def test_bytes_pass_the_proxy(network: Network) -> None:
    payload = (b"small", bytes(3 << 20))
    async with pair(network) as (one, two):
        answers = await asyncio.gather(
            *(one.transport.call(two.node, Call("echo", number)) for number in range(100)),
            two.transport.call(one.node, Call("echo", "x", payload)),
        )
    assert answers[:-1] == [Answer([1, number]) for number in range(100)]
    assert answers[-1] == Answer([2, "x"], payload)


@pytest.mark.parametrize("cut", [[(1, 2)], [(2, 1)], [(1, 2), (2, 1)]])
async def test_a_cut_drops_bytes_and_healing_reconnects(network: Network, cut: list[tuple[int, int]]) -> None:
    async with pair(network) as (one, two):
        await asyncio.to_thread(network.cut, cut)
        for process, other in ((one, two), (two, one)):
            with pytest.raises(NoAnswer):
                await process.transport.call(other.node, Call("echo", 1, timeout_ms=SHORT_MS))
        await asyncio.to_thread(network.cut, [])
        for process, other in ((one, two), (two, one)):
            assert await request_answer(process, other) == Answer([int(process.node), 2])


async def request_answer(process: Process, other: Process) -> Answer:
    """Return an answer over the present connection, or over the next one."""
    async with asyncio.timeout(15):
        while True:
            await wait_until_connected(process, other.node)
            try:
                return await process.transport.call(other.node, Call("echo", 2))
            except (ConnectionLost, NotConnected):
                await process.connections.next()  # its end is one of those that have not been looked at


async def test_a_cut_between_other_nodes_has_no_effect(network: Network) -> None:
    async with pair(network) as (one, two):
        made = one.transport.peers()[0].raft.connections_made
        await asyncio.to_thread(network.cut, [(1, 3), (3, 2)])
        await asyncio.to_thread(network.cut, [])
        assert await one.transport.call(two.node, Call("echo", 1)) == Answer([1, 1])
        assert one.transport.peers()[0].raft.connections_made == made


async def test_a_new_connection_over_a_cut_link_gets_no_answer(network: Network) -> None:
    two = Process(identity_of(2))
    async with run_processes(two):
        host, port = network.add(2, two.address[1]).split(":")
        await asyncio.to_thread(network.cut, [(1, 2)])
        raw = await RawPeer.connect((host, int(port)))
        raw.write(*encoded_hello(1))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(raw.reader.read(1), SHORT_MS / 1000)
        assert not two.transport._listener.connections(), "nobody came as far as the node"
        await asyncio.to_thread(network.cut, [])
        assert await raw.wait_until_closed() == b"", "it ends when the link is open, so that the caller tries again"
        await raw.close()


def encoded_hello(node: int) -> list[bytes]:
    return [bytes(buffer) for buffer in encode_hello(pack_hello(hello_of(node)))]


async def test_the_end_of_a_connection_does_not_pass_a_cut_link(network: Network) -> None:
    async with pair(network) as (one, two):
        await asyncio.to_thread(network.cut, [(2, 1)])
        await two.transport.close()
        with pytest.raises(NoAnswer):
            await one.transport.call(two.node, Call("echo", 1, timeout_ms=SHORT_MS))
        assert one.transport.peers()[0].raft.is_connected
        await asyncio.to_thread(network.cut, [])
        async with asyncio.timeout(15):
            while one.transport.peers()[0].raft.is_connected:
                await one.connections.next()


async def test_a_proxy_without_a_listener_behind_it_breaks_the_connection(network: Network) -> None:
    two = Process(identity_of(2))
    async with run_processes(two):
        port = two.address[1]
    host, proxied = network.add(2, port).split(":")
    raw = await RawPeer.connect((host, int(proxied)))
    raw.write(*encoded_hello(1))
    assert await raw.wait_until_closed() == b""
    await raw.close()


async def test_connections_of_strangers_pass_the_proxy(network: Network) -> None:
    two = Process(identity_of(2))
    async with run_processes(two):
        host, port = network.add(2, two.address[1]).split(":")
        raw = await RawPeer.connect((host, int(port)))
        raw.write(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n" + bytes(100_000))
        assert await raw.wait_until_closed() == b""
        await raw.close()
        assert two.transport.protocol_errors == 1


def test_guarded_processes_exit_with_the_test() -> None:
    code = (
        "import subprocess, sys, os\n"
        "from raftlog.testing.network import Network\n"
        "network = Network()\n"
        "sleeper = subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
        "network.guard([sleeper.pid])\n"
        "network.cut([])\n"  # its answer says that the message before it was read, too
        "print(sleeper.pid, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, timeout=30)
    assert done.returncode == -signal.SIGKILL
    try:
        guarded = os.pidfd_open(int(done.stdout))
    except ProcessLookupError:
        return
    ended, _, _ = select.select([guarded], [], [], 10)
    os.close(guarded)
    assert ended, "a guarded process lives on"
