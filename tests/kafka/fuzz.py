"""Arbitrary frames to the Kafka listener: each is answered, or closes its connection with an event and a reason.

`python -m tests.kafka.fuzz --frames 1000000 --seed 1` runs long; a failure prints the seed and the frame."""

import argparse
import asyncio
import logging
import random
import time
from resource import RUSAGE_SELF, getrusage
from typing import NamedTuple

from raftlog.api.kafka.api import ApiKey, KafkaApi, KafkaRequest
from raftlog.api.kafka.connections import KafkaConnections
from raftlog.api.kafka.dispatcher import Dispatcher
from raftlog.api.kafka.settings import DEFAULTS
from raftlog.api.kafka.wire import schemas
from raftlog.partitions.counters import KafkaCounters
from raftlog.runtime.memory_budget import MemoryBudget
from tests.kafka.harness import MIB, RecordingTransport, feed, make_frame, make_request, parse_answers
from tests.kafka.messages import draw_request, encode

SLOW_S = 1.0
"""One frame of at most a few KiB that holds the loop for longer is a defect."""
_BYTES = (0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF)


class FuzzResult(NamedTuple):
    """Counts of frames by outcome."""

    answered: int
    closed: int
    unanswered: int


class Corpus:
    """Valid frames of every version of every API, made once."""

    def __init__(self, rng: random.Random) -> None:
        self.frames: list[bytes] = []
        for key in ApiKey:
            for version in range(schemas.request_class(key).max_version + 1):
                for _ in range(3):
                    body = encode(draw_request(key, version, rng), version)
                    self.frames.append(make_request(key, version, body, rng.randrange(1 << 31)))

    def draw(self, rng: random.Random) -> bytes:
        """Return a frame: valid, changed, truncated, with a wrong length, or random bytes."""
        frame = bytearray(rng.choice(self.frames))
        kind = rng.randrange(6)
        if kind == 0:
            return bytes(frame)
        if kind == 1:
            return make_frame(rng.randbytes(rng.randrange(200)))
        if kind == 2:
            return make_frame(bytes(frame[4 : rng.randrange(4, len(frame) + 1)]))
        if kind == 3:
            return rng.choice((rng.randrange(1 << 32), len(frame))).to_bytes(4, "big") + bytes(frame[4:])
        for _ in range(rng.randrange(1, 6)):
            place = rng.randrange(4, len(frame))
            frame[place] = rng.choice((*_BYTES, rng.randrange(256)))
        if kind == 4:
            place = rng.randrange(4, len(frame))
            frame[place:place] = rng.randbytes(rng.randrange(1, 9))
            return make_frame(bytes(frame[4:]))
        return bytes(frame)


async def answer_nothing(request: KafkaRequest) -> None:
    """Handle a request of which only the decoding is tested."""


def list_apis() -> list[KafkaApi]:
    """Return all APIs, described by their schemas."""
    own = (ApiKey.API_VERSIONS,)
    return [
        KafkaApi(key, (0, schemas.request_class(key).max_version), answer_nothing) for key in ApiKey if key not in own
    ]


async def fuzz(frames: int, seed: int) -> FuzzResult:
    """Send drawn frames, each on a new connection if the last one was closed."""
    schemas.load()
    rng = random.Random(seed)
    corpus = Corpus(rng)
    connections = KafkaConnections(
        "kafka", DEFAULTS, Dispatcher(list_apis(), KafkaCounters()), MemoryBudget(64 * MIB), MemoryBudget(MIB)
    )
    answered = closed = unanswered = 0
    transport: RecordingTransport | None = None
    for number in range(frames):
        if transport is None or transport.is_closed:
            connection = connections()
            transport = RecordingTransport(connection)
            connection.connection_made(transport)
        data = corpus.draw(rng)
        began, before = time.thread_time(), connections.dispatcher.counters.closed
        try:
            feed(connection, data, rng.choice((None, None, 1, 7)))
            answers = parse_answers(transport.written)
        except Exception as error:
            raise AssertionError(f"seed {seed}, frame {number}: {data.hex()}") from error
        assert time.thread_time() - began < SLOW_S, f"seed {seed}, frame {number} is slow: {data.hex()}"
        transport.written = b""
        if transport.is_closed:
            closed += 1
            assert connections.dispatcher.counters.closed == before + 1, f"seed {seed}, frame {number}: no event"
        elif answers:
            answered += 1
        else:
            unanswered += 1
            if not connection.is_idle:  # part of a frame; the next one would be its rest
                transport.close()
        if number % 100 == 0:
            await asyncio.sleep(0)
    if transport is not None:
        transport.close()
    await asyncio.sleep(0)
    assert connections.requests.used == 0, f"seed {seed}: {connections.requests.used} bytes are still held"
    assert not any(connections.dispatcher.counters.errors.values()), f"seed {seed}: a handler failed"
    await connections.stop(0, 0)
    return FuzzResult(answered, closed, unanswered)


def main() -> None:
    """Run the fuzzer from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    print(f"seed {options.seed}", flush=True)
    asyncio.run(fuzz(options.frames // 10, options.seed))
    before = getrusage(RUSAGE_SELF).ru_maxrss
    began = time.process_time()
    result = asyncio.run(fuzz(options.frames, options.seed + 1))
    growth = (getrusage(RUSAGE_SELF).ru_maxrss - before) / 1024
    print(f"{result} in {time.process_time() - began:.1f} s of CPU, memory grew by {growth:.1f} MiB")


if __name__ == "__main__":
    main()
