"""Streams: order without gaps, refusals, cuts, crashes, pauses, back-pressure."""

import asyncio
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jepsen.simulation import LinkConditions, Node, SimulatedNetwork, Stream, VirtualLoop
from jepsen.simulation.network.links import MILLISECOND_NS

LOSSY = LinkConditions(loss=0.3)


class Pair:
    """Two nodes; `accepted` has the streams accepted by n1, `events` its callbacks."""

    def __init__(self, loop: VirtualLoop, conditions: LinkConditions | None = None, seed: int = 1) -> None:
        self.loop = loop
        self.network = SimulatedNetwork(loop, Random(seed), conditions)
        self.client, self.server = loop.add_node("n0"), loop.add_node("n1")
        self.accepted: list[Stream] = []
        self.events: list[Any] = []
        for node in (self.client, self.server):
            self.network.attach(node)
            node.start()

    def listen(self, *, callbacks: bool = True) -> None:
        self.network.listen(self.server.running_process(), "rpc", self.accept if callbacks else self.accepted.append)

    def accept(self, stream: Stream) -> None:
        self.accepted.append(stream)
        stream.start(self.events.append, lambda error: self.events.append(type(error).__name__))

    def in_client(self, coroutine: Any) -> "asyncio.Task[Any]":
        return self.client.running_process().spawn(coroutine)

    def connect(self) -> Stream:
        task = self.in_client(self.network.connect(self.client.running_process(), self.server, "rpc"))
        self.loop.run_until(task.done)
        stream: Stream = task.result()
        return stream


@pytest.fixture
def pair(loop: VirtualLoop) -> Pair:
    return Pair(loop)


async def outcome_of(coroutine: Any) -> Any:
    try:
        return await coroutine
    except (OSError, EOFError) as error:
        return type(error)


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32), count=st.integers(0, 50))
def test_a_lossy_link_delays_a_stream_and_keeps_its_content(seed: int, count: int) -> None:
    loop = VirtualLoop()
    pair = Pair(loop, LOSSY._replace(reorder=0.5, duplicate=0.5, bytes_per_s=100_000), seed)
    pair.listen()
    stream = pair.connect()
    for number in range(count):
        stream.send(number, Random(number).randint(1, 5000))
    stream.close()
    loop.run_for(300)
    assert pair.events == [*range(count), "EOFError"]
    assert stream.pending_bytes == 0
    assert not pair.network.drops
    loop.close()


def test_both_ends_receive_one_by_one(pair: Pair) -> None:
    pair.listen(callbacks=False)
    stream = pair.connect()
    pair.loop.run_until(lambda: bool(pair.accepted))

    async def serve() -> None:
        end = pair.accepted[0]
        end.send(("echo", await end.receive()))
        end.close()

    async def ask() -> list[Any]:
        buffer = bytearray(b"ping")
        stream.send(buffer)
        buffer.clear()
        return [await stream.receive(), await outcome_of(stream.receive())]

    pair.server.running_process().spawn(serve())
    asked = pair.in_client(ask())
    pair.loop.run_until(asked.done)
    assert asked.result() == [("echo", b"ping"), EOFError]
    with pytest.raises(ConnectionResetError):
        stream.send("after the end")


def test_callbacks_set_late_receive_all_messages(pair: Pair) -> None:
    pair.listen(callbacks=False)
    stream = pair.connect()
    stream.send("early")
    stream.close()
    pair.loop.run_for(1)
    pair.accept(pair.accepted.pop())
    assert pair.events == ["early", "EOFError"]
    with pytest.raises(ConnectionAbortedError):
        stream.send("closed here")


def test_sends_to_a_closed_end_fail(pair: Pair) -> None:
    """Each end detects a cut at its own time, and perhaps not at all if the cut has ended before."""
    pair.listen(callbacks=False)
    stream = pair.connect()
    pair.loop.run_until(lambda: bool(pair.accepted))
    end = pair.accepted[0]
    pair.server.running_process().call_soon(end.fail, ConnectionResetError("noticed late"))
    pair.loop.run_for(1)
    assert stream.lost is None
    stream.send("anybody there?")
    pair.loop.run_for(1)
    assert isinstance(stream.lost, ConnectionResetError)
    assert pair.network.drop_counts == {"the other end is gone": 1}


def test_a_node_that_is_down_or_does_not_listen_refuses(pair: Pair) -> None:
    async def try_it() -> Any:
        return await outcome_of(pair.network.connect(pair.client.running_process(), pair.server, "rpc"))

    silent = pair.in_client(try_it())
    pair.loop.run_until(silent.done)
    pair.listen()
    pair.server.crash()
    down = pair.in_client(try_it())
    pair.loop.run_until(down.done)
    assert silent.result() is down.result() is ConnectionRefusedError


@pytest.mark.parametrize("direction", ["there", "back"])
def test_no_stream_opens_over_a_cut_in_either_direction(pair: Pair, direction: str) -> None:
    pair.listen()
    ends = (pair.client, pair.server)
    pair.network.cut(*(ends if direction == "there" else ends[::-1]))
    tried = pair.in_client(outcome_of(pair.network.connect(pair.client.running_process(), pair.server, "rpc")))
    pair.loop.run_until(tried.done)
    assert tried.result() is TimeoutError
    assert pair.loop.now_ns == 3_000_000_000
    pair.loop.run_for(10)
    assert pair.events == ([] if direction == "there" else ["ConnectionResetError"]), "half open for a while"
    assert pair.network.drops


def test_a_cut_breaks_both_ends_of_a_stream_at_different_times(pair: Pair) -> None:
    pair.listen()
    stream = pair.connect()
    lost: list[int] = []
    stream.start(lambda _: None, lambda _: lost.append(pair.loop.now_ns))
    pair.loop.run_for(0.1)
    stream.send("arrives")
    pair.loop.run_for(0.1)
    stream.send("under way")
    pair.network.cut(pair.client, pair.server)
    stream.send("into the cut")
    pair.network.heal()
    stream.send("after the cut, before anybody noticed")
    pair.loop.run_for(5)
    assert pair.events == ["arrives", "ConnectionResetError"]
    assert len(lost) == 1
    assert pair.network.drop_counts == {"cut": 1, "stream broken": 2}


def test_a_one_way_cut_delivers_the_other_direction_until_it_is_detected(pair: Pair) -> None:
    pair.listen()
    stream = pair.connect()
    pair.network.cut(pair.server, pair.client)
    stream.send("heard, not answered")
    pair.loop.run_for(0.01)
    pair.accepted[0].send("never arrives")
    pair.loop.run_for(5)
    assert pair.events == ["heard, not answered", "ConnectionResetError"]
    received = pair.in_client(outcome_of(stream.receive()))
    pair.loop.run_for(1)
    assert received.result() is ConnectionResetError


def test_a_stream_with_lost_messages_never_ends_normally(pair: Pair) -> None:
    pair.listen()
    stream = pair.connect()
    pair.loop.run_for(0.1)
    pair.network.cut(pair.client, pair.server)
    stream.send("lost")
    pair.network.heal()
    stream.close()
    pair.loop.run_for(5)
    assert pair.events == ["ConnectionResetError"]


def test_a_short_cut_without_lost_messages_breaks_no_stream(pair: Pair) -> None:
    pair.listen()
    stream = pair.connect()
    pair.loop.run_for(0.1)
    pair.network.cut(pair.client, pair.server)
    pair.network.repair(pair.client, pair.server)
    pair.loop.run_for(5)
    stream.send("still here")
    pair.loop.run_for(1)
    assert pair.events == ["still here"]


@pytest.mark.parametrize("seed", range(8))
def test_the_peer_of_a_crashed_process_receives_a_prefix_and_then_an_error(loop: VirtualLoop, seed: int) -> None:
    pair = Pair(loop, seed=seed)
    pair.listen()
    stream = pair.connect()
    for number in range(20):
        stream.send(number)
        loop.run_for(0.0001)
    pair.client.crash()
    loop.run_for(5)
    *numbers, last = pair.events
    assert numbers == list(range(len(numbers)))
    assert last == "ConnectionResetError"
    dead = pair.network.drop_counts.get("stream broken", 0) + len(numbers)
    assert dead == 20, "every message arrived or was recorded"


def test_messages_to_a_crashed_process_are_lost_and_recorded(pair: Pair) -> None:
    pair.listen()
    stream = pair.connect()
    pair.server.crash()
    stream.send("too late")
    pair.loop.run_for(5)
    assert pair.events == []
    assert stream.lost is not None
    assert sum(pair.network.drop_counts.values()) == 1


def test_a_stream_belongs_to_a_process_and_not_to_its_node(pair: Pair) -> None:
    pair.listen()
    stream = pair.connect()
    pair.server.crash()
    pair.server.start()
    pair.listen()
    stream.send("to the process before")
    pair.loop.run_for(5)
    assert pair.events == []
    pair.connect().send("to the new one")
    pair.loop.run_for(1)
    assert pair.events == ["to the new one"]


def test_a_paused_process_keeps_its_streams_with_back_pressure(pair: Pair) -> None:
    pair.listen()
    stream = pair.connect()
    pair.loop.run_for(0.1)
    pair.server.pause()
    drained: list[float] = []

    async def fill() -> None:
        for number in range(10):
            stream.send(number, 10_000)
        await stream.drain(below_bytes=1)
        drained.append(asyncio.get_running_loop().time())

    pair.in_client(fill())
    pair.loop.run_for(60)
    assert stream.pending_bytes == 100_000
    assert not drained
    pair.server.resume()
    pair.loop.run_for(1)
    assert pair.events == list(range(10))
    assert len(drained) == 1


def test_a_drain_ends_when_the_stream_breaks(pair: Pair) -> None:
    pair.listen()
    stream = pair.connect()
    pair.server.pause()
    stream.send("x", 1 << 20)
    waiting = pair.in_client(stream.drain())
    pair.loop.run_for(1)
    assert not waiting.done()
    pair.network.reset_streams(pair.client, pair.server)
    pair.loop.run_for(5)
    assert waiting.done()


def test_a_middle_box_breaks_both_ends_and_loses_what_is_in_flight(pair: Pair) -> None:
    pair.listen()
    stream = pair.connect()
    pair.loop.run_for(0.1)
    stream.send("in flight")
    pair.network.reset_streams(pair.server, pair.client)
    pair.loop.run_for(5)
    assert pair.events == ["ConnectionResetError"]
    assert isinstance(stream.lost, ConnectionResetError)
    assert pair.network.drop_counts == {"stream broken": 1}


def test_streams_of_one_direction_share_the_bandwidth(loop: VirtualLoop) -> None:
    steady = LinkConditions(MILLISECOND_NS, MILLISECOND_NS, bytes_per_s=1_000_000)
    pair = Pair(loop, steady)
    times: list[float] = []

    def accept(stream: Stream) -> None:
        stream.start(lambda _: times.append(loop.now_ns / MILLISECOND_NS), lambda _: None)

    pair.network.listen(pair.server.running_process(), "rpc", accept)
    one, two = pair.connect(), pair.connect()
    begin = loop.now_ns / MILLISECOND_NS
    one.send(bytes(10_000))
    two.send(bytes(10_000))
    loop.run_for(1)
    assert [at - begin for at in times] == pytest.approx([11.0, 21.0])


def test_a_cancelled_connect_leaves_no_open_end(pair: Pair, loop: VirtualLoop) -> None:
    pair.listen()

    async def give_up() -> None:
        async with asyncio.timeout(0.00005):
            await pair.network.connect(pair.client.running_process(), pair.server, "rpc")

    tried = pair.in_client(outcome_of(give_up()))
    loop.run_for(10)
    assert tried.result() is TimeoutError
    assert pair.events in ([], ["ConnectionResetError"])


def test_a_node_cannot_be_attached_twice(pair: Pair) -> None:
    with pytest.raises(AssertionError):
        pair.network.attach(pair.client)


def test_the_repr_of_an_end_has_its_nodes(pair: Pair) -> None:
    pair.listen()
    peer: Node = pair.connect().peer_node
    assert (repr(peer), repr(pair.accepted[0])) == ("<node n1>", "<stream n1 → n0 rpc>")
