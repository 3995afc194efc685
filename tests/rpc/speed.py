"""CPU cost of the transport: `python -m tests.rpc.speed` reports the best of several rounds of this process.

The codec alone, then two transports over loopback in one process on uvloop, so both sides' work is counted."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence

import uvloop

from raftlog.runtime.rpc.calls import Call
from raftlog.runtime.rpc.config import RpcConfig
from raftlog.runtime.rpc.endpoint import bounds_of_callers
from raftlog.runtime.rpc.frames.codec import TurnDecoder, encode_turn
from raftlog.runtime.rpc.frames.frame import FrameReader
from raftlog.runtime.rpc.handshake import Channel
from raftlog.runtime.transport import Envelope
from tests.rpc.messages import ME, append, heartbeat
from tests.rpc.processes import Process, identity_of, run_cluster

_ROUNDS = 7
_CALLS = 64


def _best_us(work: Callable[[], object], count: int) -> float:
    """Return the microseconds of CPU time of one call."""
    best = float("inf")
    for _ in range(_ROUNDS):
        began = time.process_time()
        for _ in range(count):
            work()
        best = min(best, time.process_time() - began)
    return best / count * 1e6


def _measure_codec(name: str, envelopes: Sequence[Envelope], count: int = 100) -> None:
    config = RpcConfig()
    encoded = b"".join(encode_turn(envelopes))
    reader, decoder = FrameReader(bounds_of_callers(config, Channel.RAFT), config.read_buffer_bytes), TurnDecoder()

    def read() -> object:
        at = 0
        while at < len(encoded):
            buffer = reader.get_buffer()
            size = min(len(buffer), len(encoded) - at)
            buffer[:size] = encoded[at : at + size]
            reader.advance(size)
            at += size
            frame = reader.next_frame()
        assert frame is not None
        return decoder.decode(frame.body, frame.payload, ME)

    pack, unpack = _best_us(lambda: encode_turn(envelopes), count), _best_us(read, count)
    each = len(envelopes)
    print(
        f"{name:32} {len(encoded):9,} bytes   pack {pack:7.1f} us ({pack / each:5.2f} each)   "
        f"unpack {unpack:7.1f} us ({unpack / each:5.2f} each)"
    )


async def _measure_sockets() -> None:
    one, two = Process(identity_of(1)), Process(identity_of(2))
    async with run_cluster(one, two):

        async def ping() -> None:
            one.transport.send(two.node, [append(1, 30)])
            await two.turns.next()

        async def bulk() -> None:
            one.transport.send(two.node, large)
            await two.turns.next()

        async def calls() -> None:
            await asyncio.gather(
                *(one.transport.call(two.node, Call("echo", at, (b"x" * 100,))) for at in range(_CALLS))
            )

        large = [append(at * 10, 65_400) for at in range(16)]
        await _report("one small append, one way", ping, 500, 1)
        await _report(f"request and answer, {_CALLS} at once", calls, 20, _CALLS)
        each_us = await _report("16 appends of 64 KiB", bulk, 50, 16)
        print(f"{'':32} that is {65_536 / each_us:,.0f} MB/s, with both sides on one core")


async def _report(name: str, work: Callable[[], Awaitable[None]], count: int, each: int) -> float:
    """Print and return the smallest CPU time of the work in microseconds, divided by `each`."""
    best = float("inf")
    for _ in range(_ROUNDS):
        began = time.process_time()
        for _ in range(count):
            await work()
        best = min(best, time.process_time() - began)
    cost = best / count / each * 1e6
    print(f"{name:32} {cost:9.1f} us each")
    return cost


def main() -> None:
    _measure_codec("1,000 heartbeats", [heartbeat(number) for number in range(1000)])
    _measure_codec("64 appends of one small entry", [append(number, 30) for number in range(64)])
    _measure_codec("1 append of one small entry", [append(1, 30)], 1000)
    _measure_codec("1 append of 1 MiB", [append(1, 1 << 20)], 50)
    uvloop.run(_measure_sockets())


if __name__ == "__main__":
    main()
