"""Files of replicas: equal bytes pass, and every kind of difference is detected."""

import shutil
from pathlib import Path

import pytest

from jepsen.runner.replicas import check_replicas, compare_replicas
from raftlog import Log, LogConfig
from raftlog.records import split_batches
from raftlog.types import TopicPartition

PLACE = TopicPartition("t", 0)
RECORDS = 60


@pytest.fixture
def data_dirs(tmp_path: Path) -> dict[int, Path]:
    """Return three nodes with the same log of several segments."""
    one = tmp_path / "1"
    with Log.open(one / "t" / "0", config=LogConfig(segment_bytes=4096)) as log:
        for number in range(RECORDS):
            log.append([b"record %d " % number * 30])
    for copy in ("2", "3"):
        shutil.copytree(one, tmp_path / copy)
    return {node: tmp_path / str(node) for node in (1, 2, 3)}


def list_segments(data_dirs: dict[int, Path], node: int) -> list[Path]:
    found = sorted((data_dirs[node] / "t" / "0").glob("*.log"))
    assert len(found) > 2
    return found


def anomaly_kinds(data_dirs: dict[int, Path], end: int = RECORDS) -> set[str]:
    return {finding.kind for finding in compare_replicas(data_dirs, {PLACE: end})}


def test_equal_bytes_pass(data_dirs: dict[int, Path]) -> None:
    assert check_replicas(data_dirs, {PLACE: RECORDS}) == []


def test_a_different_byte_is_detected_by_comparison_and_by_its_checksum(data_dirs: dict[int, Path]) -> None:
    with open(list_segments(data_dirs, 2)[1], "r+b") as file:
        file.seek(-1, 2)
        file.write(b"\x77")
    found = {finding.kind for finding in check_replicas(data_dirs, {PLACE: RECORDS})}
    assert found == {"replicas-differ", "damaged-log"}


def test_a_replica_that_lags_is_no_difference_unless_a_majority_lags(data_dirs: dict[int, Path]) -> None:
    for node in (2, 3):
        last = list_segments(data_dirs, node)[-1]
        content = last.read_bytes()
        size = sum(len(batch) for _, batch in list(split_batches(content))[:-1])
        last.write_bytes(content[:size])
        assert ("too-few-copies" in anomaly_kinds(data_dirs)) == (node == 3)
        assert "replicas-differ" not in anomaly_kinds(data_dirs)


def test_records_after_the_end_are_not_compared(data_dirs: dict[int, Path]) -> None:
    last = list_segments(data_dirs, 2)[-1]
    end = int(last.stem)
    content = bytearray(last.read_bytes())
    content[-1] ^= 1
    last.write_bytes(content)
    assert "replicas-differ" not in anomaly_kinds(data_dirs, end)
    assert "replicas-differ" in anomaly_kinds(data_dirs)


def test_replicas_with_different_log_starts_are_compared_from_the_later_one(data_dirs: dict[int, Path]) -> None:
    first = list_segments(data_dirs, 3)[0]
    for path in first.parent.glob(f"{first.stem}.*"):
        path.unlink()
    assert "replicas-differ" not in anomaly_kinds(data_dirs)


def test_replicas_trimmed_at_different_moments_are_compared_where_two_of_them_have_data(
    data_dirs: dict[int, Path],
) -> None:
    second, third = (int(path.stem) for path in list_segments(data_dirs, 1)[1:3])
    for node, start in ((2, second + 1), (3, third + 1)):
        with Log.open(data_dirs[node] / "t" / "0", config=LogConfig(segment_bytes=4096)) as log:
            assert log.trim(start) == start
    assert [int(list_segments(data_dirs, node)[0].stem) for node in (1, 2, 3)] == [0, second, third]
    assert check_replicas(data_dirs, {PLACE: RECORDS}) == []
    segment = list_segments(data_dirs, 2)[0]
    content = bytearray(segment.read_bytes())
    content[-1] ^= 1
    segment.write_bytes(content)
    assert "replicas-differ" in anomaly_kinds(data_dirs), "two of them have it, and the third one has not any more"


def test_a_missing_segment_in_the_middle_is_detected(data_dirs: dict[int, Path]) -> None:
    missing = list_segments(data_dirs, 3)[1]
    for path in missing.parent.glob(f"{missing.stem}.*"):
        path.unlink()
    assert "replicas-differ" in anomaly_kinds(data_dirs)


def test_a_missing_replica_is_detected(data_dirs: dict[int, Path]) -> None:
    shutil.rmtree(data_dirs[3] / "t")
    assert anomaly_kinds(data_dirs) == {"missing-replica"}
