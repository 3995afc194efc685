"""Measures of fetches over HTTP from a log in the page cache, as JSON and as stored batches.

Each request that the load repeats is made once before the load: the records of its answer are counted and their offsets
checked. wrk's count of bytes has to show that the answers under load were as large.
"""

import json
from collections.abc import Callable
from pathlib import Path

from bench import load, probes, service
from bench.load import CONNECTIONS, SECONDS
from bench.measure import Figure, Measure, Values, Workspace, require
from bench.read_back import BATCHES_TYPE
from bench.samples import RECORDS_PER_BATCH, VALUE_BYTES
from raftlog.records import build_batch, read_records, split_batches

_TOPIC = "bench"
_PATH = f"/topics/{_TOPIC}/partitions/0"
_RECORDS = 500_000
_BATCHES_PER_REQUEST = 10
_OFFSETS = 64
"""Number of different offsets at which fetches begin, in turn."""
_JSON_BYTES = 200_000
_BATCHES_BYTES = 1 << 20
JSON_TYPE = "application/vnd.kafka.json.v2+json"


def value_at(offset: int) -> bytes:
    """Return the JSON text of 100 bytes that is stored at an offset."""
    return b'"%0*d"' % (VALUE_BYTES - 2, offset)


def fill(server: service.Service) -> None:
    """Store the records; each value contains its offset."""
    server.create_topic(_TOPIC)
    step = RECORDS_PER_BATCH * _BATCHES_PER_REQUEST
    for first in range(0, _RECORDS, step):
        body = b"".join(
            build_batch([value_at(offset) for offset in range(base, base + RECORDS_PER_BATCH)])
            for base in range(first, first + step, RECORDS_PER_BATCH)
        )
        server.request("POST", _PATH, body, {"Content-Type": BATCHES_TYPE})
    require(server.end_offset(_TOPIC) == _RECORDS, "the topic does not hold what was stored")


def count_json(body: bytes, offset: int) -> int:
    """Check the records of a JSON answer and return their number."""
    records = json.loads(body)
    for number, record in enumerate(records):
        expected = (offset + number, value_at(offset + number).decode().strip('"'))
        seen = (record["offset"], record["value"])
        require(seen == expected, f"the answer for offset {offset} holds {seen} in place of {expected}")
    return len(records)


def count_batches(body: bytes, offset: int) -> int:
    """Check the records from `offset` on in an answer of stored batches, and return their number."""
    count = 0
    for header, batch in split_batches(body):
        for record in read_records(batch):
            require(record.value == value_at(record.offset), f"offset {record.offset} holds another value")
        require(header.base_offset <= offset + count < header.next_offset, "batches are missing from the answer")
        count = header.next_offset - offset
    return count


def measure_fetches(directory: Path, accept: str, max_bytes: int, count: Callable[[bytes, int], int]) -> Values:
    """Fill a broker, check its answers to some requests, then load it with the same requests."""
    headers = {"Accept": accept}
    with service.broker(directory / "data") as server:
        fill(server)
        records, sizes, requests = 0, 0, []
        for turn in range(_OFFSETS):
            offset = turn * (_RECORDS // _OFFSETS // RECORDS_PER_BATCH) * RECORDS_PER_BATCH
            path = f"{_PATH}/records?offset={offset}&timeout=1000&max_bytes={max_bytes}"
            body = server.request("GET", path, headers=headers)
            records += count(body, offset)
            sizes += len(body)
            requests.append(load.raw_request("GET", server.port, path, headers))
        file = load.write_requests(directory / "requests", requests)
        cpu_before = probes.cpu_seconds(server.pid)
        seen = load.run_wrk("replay.lua", server.url, str(file))
        cpu_s = probes.cpu_seconds(server.pid) - cpu_before
    whole_rounds = seen.requests // _OFFSETS
    require(whole_rounds > 0, f"only {seen.requests} fetches were answered")
    require(seen.bytes_read >= whole_rounds * sizes, "the answers under load were smaller than those looked at before")
    return {
        "records_per_s": seen.requests_per_s * records / _OFFSETS,
        "mb_per_s": seen.requests_per_s * sizes / _OFFSETS / 1e6,
        "p99_ms": seen.p99_ms,
        "records_per_answer": records / _OFFSETS,
        "requests": seen.requests,
        "broker_cpu_share": cpu_s / seen.seconds,
    }


def run_json(workspace: Workspace) -> Values:
    with workspace.directory() as directory:
        return measure_fetches(directory, JSON_TYPE, _JSON_BYTES, count_json)


def run_batches(workspace: Workspace) -> Values:
    with workspace.directory() as directory:
        return measure_fetches(directory, BATCHES_TYPE, _BATCHES_BYTES, count_batches)


def _describe_method(what: str, max_bytes: int) -> str:
    return (
        f"A topic of {_RECORDS:,} records of {VALUE_BYTES} bytes ({RECORDS_PER_BATCH:,} a batch) is fetched {what}, "
        f"max_bytes={max_bytes:,} from {_OFFSETS} offsets in turn: wrk, {CONNECTIONS} in flight, {SECONDS} s. Each of "
        "these answers was fetched before the load, its records counted and compared; wrk's byte count has to show "
        "that the answers under load were as large."
    )


_FIGURES = (Figure("mb_per_s", "… of bodies", "MB/s"), Figure("p99_ms", "… p99 of a request", "ms"))

MEASURES = (
    Measure(
        "http-fetch-json",
        "HTTP: JSON fetch",
        _describe_method("as JSON", _JSON_BYTES),
        (Figure("records_per_s", "records", "records/s", at_least=300_000), *_FIGURES),
        run_json,
    ),
    Measure(
        "http-batches-out",
        "HTTP: stored batches out",
        _describe_method("as stored batches", _BATCHES_BYTES),
        (Figure("records_per_s", "records", "records/s", at_least=2_000_000), *_FIGURES),
        run_batches,
    ),
)
