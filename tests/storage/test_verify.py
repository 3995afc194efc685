"""Verification of a log during writes, on real files."""

from pathlib import Path

import pytest

import raftlog
from raftlog.storage import verify
from raftlog.storage.real_disk import RealDisk
from raftlog.storage.roll import Roll
from raftlog.storage.segment import Segment
from raftlog.topic_config import LogConfig


def test_a_segment_whose_roll_is_written_during_verification_is_intact(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log"
    with raftlog.Log.open(path, LogConfig(segment_bytes=1 << 16)) as log:
        while len(list(path.glob("*.log"))) < 2:
            log.append([b"v" * 1000] * 10)
    newest = sorted(path.glob("*.log"))[-1]
    content = newest.read_bytes()
    newest.write_bytes(b"")
    newest.with_suffix(".index").write_bytes(b"")
    for checkpoint in path.rglob("*checkpoint*"):
        checkpoint.unlink()  # it was written later

    def read_roll_then_write_it(segment: Segment, original=verify.read_roll) -> Roll | None:  # type: ignore[no-untyped-def]
        roll = original(segment)
        if roll is None:
            newest.write_bytes(content)
        return roll

    monkeypatch.setattr(verify, "read_roll", read_roll_then_write_it)
    report = verify.verify_log(RealDisk(lambda job: job()), str(path))
    assert report.problems == []


def test_batches_appended_during_the_check_of_the_last_one_are_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log"
    with raftlog.Log.open(path) as log:
        for _ in range(4):
            log.append([b"v" * 100] * 20)
    (file,) = path.glob("*.log")
    index = file.with_suffix(".index")
    content, rows = file.read_bytes(), index.read_bytes()
    for checkpoint in path.rglob("*checkpoint*"):
        checkpoint.unlink()
    file.write_bytes(content[: len(content) // 2])  # inside a batch: the writer is in the middle of an append
    index.write_bytes(rows[: len(rows) // 5 * 2])

    def write_the_rest(segment: Segment, position: int, reason: str, original=verify.looks_torn) -> bool:  # type: ignore[no-untyped-def]
        file.write_bytes(content)
        index.write_bytes(rows)
        return original(segment, position, reason)

    monkeypatch.setattr(verify, "looks_torn", write_the_rest)
    report = verify.verify_log(RealDisk(lambda job: job()), str(path))
    assert report.problems == []
    assert report.tail_bytes > 0
