"""The check after a measurement reports missing, duplicated and damaged records."""

import json
from typing import Any

import pytest

from bench.measure import MeasureFailed
from bench.read_back import require_read_back
from raftlog.records import build_batch, stamp
from tests.bench.answering import serve_answers


def make_batch(values: list[bytes], offset: int) -> bytearray:
    batch = build_batch(values)
    stamp(batch, offset, 1)  # type: ignore[arg-type]
    return batch


def check_read_back(batches: list[bytearray], end: int, acknowledged: int, sent: int) -> dict[str, float]:
    def answer(path: str, body: Any) -> tuple[int, bytes]:
        if path.endswith("/offsets"):
            return 200, json.dumps({"end_offset": end}).encode()
        return 200, b"".join(batches)

    with serve_answers(answer) as port:
        return require_read_back(port, "t", acknowledged, sent)


def test_complete_records_pass() -> None:
    found = check_read_back([make_batch([b"a", b"b"], 0), make_batch([b"c"], 2)], 3, acknowledged=2, sent=3)
    assert found["records_stored"] == 3


@pytest.mark.parametrize(
    ("values", "acknowledged", "sent", "why"),
    [
        ([b"a", b"b"], 3, 4, "3 records were acknowledged, 2 are stored"),
        ([b"a", b"b", b"c"], 1, 2, "at most 2 were sent"),
        ([b"a", b"b", b"a"], 3, 3, "stored twice"),
    ],
)
def test_a_wrong_count_or_a_duplicate_is_detected(values: list[bytes], acknowledged: int, sent: int, why: str) -> None:
    with pytest.raises(MeasureFailed, match=why):
        check_read_back([make_batch(values, 0)], len(values), acknowledged, sent)


def test_a_flipped_bit_and_a_gap_are_detected() -> None:
    damaged = make_batch([b"a"], 0)
    damaged[-1] ^= 1
    with pytest.raises(MeasureFailed, match="not sound"):
        check_read_back([damaged], 1, acknowledged=1, sent=1)
    with pytest.raises(MeasureFailed, match="not sound"):
        check_read_back([make_batch([b"a"], 0), make_batch([b"b"], 2)], 3, acknowledged=2, sent=3)
