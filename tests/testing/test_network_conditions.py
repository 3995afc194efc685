"""Network conditions: with real transports on both sides of the proxy, and their computation alone."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from random import Random

import pytest

from raftlog.runtime.rpc.calls import Answer, Call
from raftlog.runtime.rpc.errors import ConnectionLost, NoAnswer
from raftlog.testing import BrokerFailed, Cluster
from raftlog.testing.link_state import (
    HELD_BYTES_MAX,
    HELD_BYTES_MIN,
    RETRANSMISSION_S,
    SEGMENT_BYTES,
    LinkState,
    LinkStates,
)
from raftlog.testing.network import Faults, Network
from raftlog.testing.network_conditions import NetworkConditions, TrafficCounters
from raftlog.testing.stream import END, ForwardedStream
from tests.rpc.processes import Process, wait_until_connected
from tests.testing.test_network import pair

FORTH, BACK = (1, 2), (2, 1)


@pytest.fixture
def network() -> Iterator[Network]:
    started = Network()
    yield started
    started.close()


async def set_conditions(network: Network, **conditions: NetworkConditions) -> None:
    links = {"forth": FORTH, "back": BACK}
    faults = Faults(conditions={links[name]: each for name, each in conditions.items()})
    await asyncio.to_thread(network.set_faults, faults)


async def time_of_call(one: Process, two: Process, value: object, payload: tuple[bytes, ...] = ()) -> float:
    """Return the time until an answer arrives."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    assert await one.transport.call(two.node, Call("echo", value, payload)) == Answer([int(one.node), value], payload)
    return loop.time() - began


async def test_a_delay_affects_one_direction_and_is_counted(network: Network) -> None:
    async with pair(network) as (one, two):
        await set_conditions(network, forth=NetworkConditions(delay_ms=150))
        assert await time_of_call(one, two, 1) >= 0.145
        seen = await asyncio.to_thread(network.counters)
        assert seen[FORTH].rpc.delayed_bytes > 0
        assert seen[FORTH].rpc.longest_ms >= 145
        assert (seen[BACK].rpc.delayed_bytes, seen[BACK].rpc.longest_ms) == (0, 0)
        await set_conditions(network)
        before = (await asyncio.to_thread(network.counters))[FORTH]
        await time_of_call(one, two, 2)
        after = (await asyncio.to_thread(network.counters))[FORTH].subtract(before).rpc
        assert after.passed_bytes > 0
        assert (after.delayed_bytes, after.longest_ms) == (0, 0)


async def test_bytes_keep_their_order_under_network_faults(network: Network) -> None:
    payload = (bytes(range(256)) * 4000,)
    async with pair(network) as (one, two):
        await set_conditions(network, forth=NetworkConditions(20, 20, loss=0.02), back=NetworkConditions(jitter_ms=5))
        for number in range(5):
            await time_of_call(one, two, number, payload)
        assert (await asyncio.to_thread(network.counters))[FORTH].rpc.lost_segments > 0


async def test_the_end_of_a_fault_releases_held_data_at_once(network: Network) -> None:
    async with pair(network) as (one, two):
        await set_conditions(network, forth=NetworkConditions(delay_ms=60_000))
        asked = asyncio.ensure_future(time_of_call(one, two, 1))
        while not (await asyncio.to_thread(network.counters))[FORTH].rpc.delayed_bytes:
            assert not asked.done()
        await set_conditions(network)
        assert await asyncio.wait_for(asked, 15) < 60


async def test_a_slow_link_delays_its_senders(network: Network) -> None:
    async with pair(network) as (one, two):
        await set_conditions(network, forth=NetworkConditions(rate_bytes_s=400_000))
        assert await time_of_call(one, two, 1, (bytes(200_000),)) >= 0.45
        # More than may be held: the rest waits in the sockets of the senders.
        big = asyncio.ensure_future(time_of_call(one, two, 2, (bytes(6 << 20),)))
        while not (seen := await asyncio.to_thread(network.counters))[FORTH].rpc.delayed_bytes > 300_000:
            assert not big.done()
        assert seen[FORTH].rpc.delayed_bytes < 5 << 20
        assert not seen[BACK].rpc.delayed_bytes, "the opposite link is as fast as ever"
        await set_conditions(network)
        await asyncio.wait_for(big, 15)


async def test_a_reset_breaks_connections_and_loses_bytes_in_flight(network: Network) -> None:
    async with pair(network) as (one, two):
        await set_conditions(network, forth=NetworkConditions(delay_ms=60_000))
        asked = asyncio.ensure_future(one.transport.call(two.node, Call("echo", 1)))
        while not (await asyncio.to_thread(network.counters))[FORTH].rpc.delayed_bytes:
            assert not asked.done()
        assert await asyncio.to_thread(network.reset, [(1, 3)]) == 0
        assert await asyncio.to_thread(network.reset, [FORTH]) >= 1
        with pytest.raises((ConnectionLost, NoAnswer)):
            await asked
        await set_conditions(network)
        async with asyncio.timeout(15):
            await wait_until_connected(one, two.node)
        assert (await asyncio.to_thread(network.counters))[FORTH].rpc.resets >= 1


async def test_dropped_bytes_of_a_cut_are_counted(network: Network) -> None:
    async with pair(network) as (one, two):
        await asyncio.to_thread(network.cut, [FORTH])
        with pytest.raises(NoAnswer):
            await one.transport.call(two.node, Call("echo", 1, (bytes(5_000),), timeout_ms=200))
        seen = await asyncio.to_thread(network.counters)
        assert seen[FORTH].rpc.dropped_bytes > 5_000
        assert "bytes dropped" in str(seen[FORTH])
        await asyncio.to_thread(network.cut, [])


# clients


@asynccontextmanager
async def connect_client(address: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    yield reader, writer
    writer.close()


async def test_a_cut_of_clients_can_drop_only_answers(network: Network) -> None:
    heard: asyncio.Queue[bytes] = asyncio.Queue()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100):
            heard.put_nowait(data)
            writer.write(b"yes")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    address = network.add_clients(7, server.sockets[0].getsockname()[1])
    async with asyncio.timeout(15), connect_client(address) as (reader, writer):
        writer.write(b"one?")
        assert (await heard.get(), await reader.read(3)) == (b"one?", b"yes")
        await asyncio.to_thread(network.cut, [(7, 0)])
        writer.write(b"two?")
        assert await heard.get() == b"two?"
        while not (seen := (await asyncio.to_thread(network.counters))[7, 0].rpc).dropped_bytes:
            pass
        assert seen.dropped_bytes == 3
        await asyncio.to_thread(network.cut, [(0, 7)])
        assert await reader.read() == b"", "the connection that lost something ends"
    async with asyncio.timeout(15), connect_client(address) as (reader, writer):
        writer.write(b"three?")
        while not (await asyncio.to_thread(network.counters))[0, 7].rpc.dropped_bytes:
            pass
        await asyncio.to_thread(network.cut, [])
        assert await reader.read() == b""
        assert heard.empty()
    server.close()


async def test_a_silent_client_over_a_cut_link_reconnects(network: Network) -> None:
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    address = network.add_clients(7, server.sockets[0].getsockname()[1])
    await asyncio.to_thread(network.cut, [(0, 7)])
    async with asyncio.timeout(15), connect_client(address) as (reader, _):
        while await asyncio.to_thread(network.reset, [(0, 8)]) or not await linked(network):
            pass
        await asyncio.to_thread(network.cut, [])
        assert await reader.read() == b""
    server.close()


async def linked(network: Network) -> bool:
    return (0, 7) in await asyncio.to_thread(network.counters)


def test_a_cluster_of_one_has_public_addresses() -> None:
    with Cluster(1, client_cuts=True) as cluster:
        node = cluster.nodes[1]
        assert cluster.addresses == [node.http_public] != [node.http]
        assert node.get("/v1/brokers")[0]["http_address"] == node.http_public
        cluster.cut_clients([1])
        node.restart()
        cluster.wait_ready()
        cluster.heal()
        with pytest.raises(BrokerFailed, match="no network fault is possible"):
            cluster.cut([1], [2])
    with Cluster(1) as cluster, pytest.raises(BrokerFailed, match="without `client_cuts=True`"):
        cluster.cut_clients([1])


# arithmetic


def state_with(conditions: NetworkConditions, seed: int = 1) -> LinkState:
    link_state = LinkState(Random(seed))
    link_state.change(conditions)
    return link_state


def test_lost_segments_stall_for_doubling_timeouts() -> None:
    link_state = state_with(NetworkConditions(loss=0.5))
    stalls = {round(link_state.draw_arrival_time(0.0, 100) / RETRANSMISSION_S) for _ in range(2000)}
    assert stalls == {0, 1, 3, 7, 15, 31}
    large = state_with(NetworkConditions(loss=0.1))
    for _ in range(500):
        large.draw_arrival_time(0.0, 30 * SEGMENT_BYTES)
    assert large.counters.lost_segments > 450, "the more segments, the more of them are lost"


def test_connections_of_a_link_share_its_rate() -> None:
    link_state = state_with(NetworkConditions(delay_ms=10, rate_bytes_s=1000))
    assert [link_state.draw_arrival_time(5.0, 500), link_state.draw_arrival_time(5.0, 500)] == pytest.approx(
        [5.51, 6.01]
    )
    assert link_state.draw_arrival_time(100.0, 500) == pytest.approx(100.51)
    assert link_state.limit == HELD_BYTES_MIN
    assert state_with(NetworkConditions(delay_ms=1)).limit == HELD_BYTES_MAX


def test_datagrams_are_lost_duplicated_and_reordered() -> None:
    link_state = state_with(NetworkConditions(delay_ms=10, loss=0.2, duplicate=0.1, reorder=0.1))
    arrivals = [(due, number) for number in range(2000) for due in link_state.draw_arrival_times(number / 1000, 100)]
    assert 250 < link_state.counters.lost_datagrams < 550
    assert 80 < link_state.counters.duplicated_datagrams < 240
    assert len(arrivals) == 2000 - link_state.counters.lost_datagrams + link_state.counters.duplicated_datagrams
    for _, number in sorted(arrivals):
        link_state.count_arrival(number)
    assert link_state.counters.overtaken_datagrams > 80
    link_state.held_bytes = HELD_BYTES_MAX
    assert link_state.draw_arrival_times(0.0, 100) == (), "a datagram above the limit is lost"


def test_impossible_network_faults_are_refused() -> None:
    for impossible in (NetworkConditions(loss=1.0), NetworkConditions(delay_ms=-1.0)):
        with pytest.raises(ValueError, match=r"shares must be below|negative"):
            impossible.check()


def test_unknown_nodes_have_no_link_state() -> None:
    link_states = LinkStates(Random(1))
    assert link_states.get(None, 1) is not link_states.get(None, 1)
    assert link_states.get(1, 2) is link_states.get(1, 2)
    assert [seen[:2] for seen in link_states.counters()] == [(1, 2)]


class _FakeStream:
    """Fake of both ends of a stream."""

    def __init__(self) -> None:
        self.is_full = False
        self.calls: list[object] = []

    def write(self, data: bytes) -> None:
        self.calls.append(data)

    def close(self) -> None:
        self.calls.append("closed")

    def pause_reading(self, reason: str) -> None:
        self.calls.append(("paused", reason))

    def resume_reading(self, reason: str) -> None:
        self.calls.append(("resumed", reason))


async def test_messages_in_flight_wait_for_full_receivers_and_are_lost_in_cuts() -> None:
    sender, receiver, link_state = _FakeStream(), _FakeStream(), state_with(NetworkConditions(delay_ms=60_000))
    stream = ForwardedStream(link_state, sender, receiver)
    stream.feed(b"a")
    stream.feed(bytes(HELD_BYTES_MAX))
    assert sender.calls == [("paused", "held")]
    link_state.change(None)
    receiver.is_full = True
    stream.flush()
    stream.feed(b"b")
    assert receiver.calls == [], "behind what is held, whatever the conditions are now"
    receiver.is_full = False
    stream.release()
    assert receiver.calls == [b"a", bytes(HELD_BYTES_MAX), b"b"]
    assert sender.calls[1:] == [("resumed", "held")]
    assert link_state.held_bytes == 0
    link_state.change(NetworkConditions(delay_ms=60_000))
    stream.feed(b"c")
    stream.feed(END)
    link_state.is_cut = True
    stream.flush()
    assert receiver.calls[3:] == [], "neither the bytes nor the end came through"
    assert (stream.has_lost, link_state.counters.dropped_bytes, link_state.held_bytes) == (True, 1, 0)


def test_counters_are_formatted_as_text() -> None:
    before = TrafficCounters(passed_bytes=10, dropped_bytes=100, delayed_bytes=1, longest_ms=70)
    after = TrafficCounters(passed_bytes=20, dropped_bytes=4412, dropped_datagrams=3, delayed_bytes=1, longest_ms=70)
    assert str(after.subtract(before)) == "4,312 bytes and 3 datagrams dropped"
    assert str(TrafficCounters(delayed_bytes=5, longest_ms=61, lost_segments=2, resets=1)) == (
        "5 bytes delayed by up to 61 ms, 2 segments lost, 1 resets"
    )
    assert str(TrafficCounters(passed_bytes=5)) == "nothing"
