"""POST …/restore: stored batches at their own offsets."""

import io
from typing import Any

import pytest

from raftlog.records import NewRecord, build_batch, stamp
from raftlog.types import Offset, Term

BATCHES = {"Content-Type": "application/vnd.raftlog.batches"}
PATH = "/v1/partitions/kafka/t/0/restore"


def batch_at(offset: int, count: int = 2) -> bytes:
    batch = build_batch([NewRecord(b"v%d" % number, None, 1_000) for number in range(count)])
    stamp(batch, Offset(offset), Term(1))
    return bytes(batch)


async def test_batches_are_appended_at_their_offsets_once(api: Any) -> None:
    await api.create_topic()
    body = batch_at(0) + batch_at(2)
    status, answer = await api.post(PATH, data=body, headers=BATCHES)
    assert (status, answer["next_offset"], answer["high_watermark"]) == (200, 4, 4)
    status, answer = await api.post(PATH, data=body, headers=BATCHES)
    assert (status, answer["error_code"], answer["outcome"]) == (409, 40904, "failed")
    assert "ends at offset 4, and the batches begin at 0" in answer["message"]
    status, records = await api.get("/topics/t/partitions/0/records?offset=0")
    assert [record["offset"] for record in records] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("path", "body", "headers", "expected"),
    [
        (PATH, batch_at(0), {"Content-Type": "application/octet-stream"}, 415),
        (PATH, b"{}", {"Content-Type": "application/json"}, 415),
        (PATH, b"", BATCHES, 400),
        (PATH, batch_at(0)[:-1], BATCHES, 400),
        (PATH, bytes(100), BATCHES, 400),
        (PATH.replace("/t/", "/none/"), batch_at(0), BATCHES, 404),
        (PATH.replace("/0/", "/7/"), batch_at(0), BATCHES, 404),
        (PATH.replace("kafka", "other"), batch_at(0), BATCHES, 404),
        (PATH, batch_at(0, 1) + bytes(25 << 20), BATCHES, 413),
    ],
)
async def test_wrong_requests_change_nothing(
    api: Any, path: str, body: bytes, headers: dict[str, str], expected: int
) -> None:
    await api.create_topic()
    status, answer = await api.post(path, data=io.BytesIO(body), headers=headers)
    assert status == expected, answer
    assert (await api.get("/topics/t/partitions/0/offsets"))[1] == {"beginning_offset": 0, "end_offset": 0}
