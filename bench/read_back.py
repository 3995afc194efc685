"""Read-back of records that were acknowledged over HTTP, after a kill and restart of the brokers.

The recovered records are fetched as stored batches and checked here, in a child: every CRC, every offset, and no value
twice."""

import http.client
import json
from collections.abc import Iterator

from bench.child import run_in_child
from bench.load import CONNECTIONS
from bench.measure import require
from bench.service import HOST, REQUEST_S_MAX, Service
from raftlog.records import BatchHeader, crc_matches, read_records, split_batches

BATCHES_TYPE = "application/vnd.raftlog.batches"
_READ_BYTES = 8 << 20
_VALUES_COMPARED_MAX = 300_000


def inspect(port: int, topic: str, partitions: int, compared_max: int) -> dict[str, int]:
    """Read a whole topic and return counts of its records; in a child process."""
    stored, values, different, unsound = 0, 0, set(), 0
    for partition in range(partitions):
        end = 0
        for header, batch in read_batches(port, f"/topics/{topic}/partitions/{partition}"):
            is_sound = crc_matches(batch, header) and header.base_offset == end
            unsound += not is_sound
            end = header.next_offset
            if is_sound and values < compared_max:
                found = [bytes(record.value or b"") for record in read_records(batch)]
                values += len(found)
                different.update(found)
        stored += end
    return {"stored": stored, "values": values, "different": len(different), "unsound": unsound}


def read_batches(port: int, path: str) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Yield all batches of a partition up to its end offset."""
    connection = http.client.HTTPConnection(HOST, port, timeout=REQUEST_S_MAX)
    end = int(json.loads(_get(connection, f"{path}/offsets", "application/json"))["end_offset"])
    offset = 0
    while offset < end:
        url = f"{path}/records?offset={offset}&max_bytes={_READ_BYTES}"
        for header, batch in split_batches(_get(connection, url, BATCHES_TYPE)):
            yield header, batch
            offset = header.next_offset
    connection.close()


def _get(connection: http.client.HTTPConnection, path: str, accept: str) -> bytes:
    """Return the body of the answer to GET `path`. Raises `MeasureFailed` for another status than 200."""
    connection.request("GET", path, headers={"Accept": accept})
    response = connection.getresponse()
    body = response.read()
    require(response.status == 200, f"GET {path}: {response.status} {body[:300]!r}")
    return body


def require_read_back(
    port: int, topic: str, acknowledged: int, sent: int, *, partitions: int = 1, all_differ: bool = True
) -> dict[str, float]:
    """Raise `MeasureFailed` unless a broker returns every acknowledged record once, and only sent records."""
    found = run_in_child(inspect, port=port, topic=topic, partitions=partitions, compared_max=_VALUES_COMPARED_MAX)
    stored = found["stored"]
    require(stored >= acknowledged, f"{acknowledged} records were acknowledged, {stored} are stored")
    require(stored <= sent, f"{stored} records are stored, but at most {sent} were sent")
    require(found["unsound"] == 0, f"{found['unsound']} stored batches are not sound")
    if all_differ:
        require(found["different"] == found["values"], "records are stored twice")
    return {"records_acknowledged": acknowledged, "records_stored": stored, "values_compared": found["values"]}


def require_stored(
    service: Service, topic: str, requests: int, records_per_request: int, *, all_differ: bool = True
) -> dict[str, float]:
    """Kill and restart a broker; raise `MeasureFailed` unless it stores every acknowledged record once.

    Requests that were in flight when the load ended may be stored too: at most one for each connection.
    """
    acknowledged_end = service.end_offset(topic)
    service.kill()
    service.start()
    now = service.end_offset(topic)
    require(
        now >= acknowledged_end,
        f"the end offset was {acknowledged_end}; after the restart of the broker it is {now}",
    )
    acknowledged, sent = requests * records_per_request, (requests + CONNECTIONS) * records_per_request
    return require_read_back(service.port, topic, acknowledged, sent, all_differ=all_differ)
