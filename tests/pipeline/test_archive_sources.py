"""Archives of real logs: through brokers, and from their files; with changes of the topic in between."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from raftlog.errors import UndecodableBatch, UnknownTopic
from raftlog.pipeline.archives.archive import ArchiveReport, archive_in_batches
from raftlog.pipeline.archives.files import LocalFiles
from raftlog.pipeline.archives.log_sources import Brokers, Segments
from raftlog.pipeline.archives.sources import ArchiveSource
from raftlog.pipeline.archives.state import read_settled
from raftlog.pipeline.errors import DataLost, LogReplaced
from raftlog.pipeline.options import TopicChoice
from raftlog.types import TopicPartition
from tests.pipeline.archives import run_twice
from tests.pipeline.brokers_here import run_brokers
from tests.undecodable import SMALL

ONLY_ORDERS = TopicChoice(names=("orders",))


def archive(
    lake: Path, source: ArchiveSource, choice: TopicChoice = ONLY_ORDERS, *, fail_on_data_loss: bool = True
) -> ArchiveReport:
    return archive_in_batches(
        run_twice, source, LocalFiles(str(lake)), choice, compression="snappy", fail_on_data_loss=fail_on_data_loss
    )


def numbered_values(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]


def archived_values(lake: Path, partition: int) -> list[tuple[int, bytes]]:
    files = read_settled(LocalFiles(str(lake))).files_of_topics(None)
    found = []
    for file in files:
        if file.partition == partition:
            table = pq.ParquetFile(lake / file.path).read(["offset", "value"])
            found += zip(table["offset"].to_pylist(), table["value"].to_pylist(), strict=True)
    return sorted(found)


def test_an_archive_continues_from_brokers_to_files_and_back(tmp_path: Path) -> None:
    lake, data_dir = tmp_path / "lake", tmp_path / "brokers" / "1"
    with run_brokers(tmp_path / "brokers") as brokers:
        source = Brokers(brokers.bootstrap, split_rows=70)
        brokers.create_topic("orders", 2)
        brokers.create_topic("others")
        brokers.produce("orders", 0, numbered_values(0, 250), per_batch=40)
        assert archive(lake, source).rows == 250
        state = read_settled(LocalFiles(str(lake)))
        assert {place: coverage[1:] for place, coverage in state.covered.items()} == {
            TopicPartition("orders", 0): (0, 250),
            TopicPartition("orders", 1): (0, 0),
        }
        brokers.produce("orders", 0, numbered_values(250, 300))
        brokers.produce("orders", 1, numbered_values(0, 30))
        with pytest.raises(UnknownTopic, match="missing"):
            archive(lake, source, TopicChoice(names=("missing",)))
    report = archive(lake, Segments(str(data_dir), split_bytes=1000))
    assert [tuple(each) for each in report.partitions] == [("orders", 0, 250, 300, 50), ("orders", 1, 0, 30, 30)]
    assert archived_values(lake, 0) == list(enumerate(numbered_values(0, 300)))
    assert archived_values(lake, 1) == list(enumerate(numbered_values(0, 30)))


def test_changes_of_the_topic_between_runs_are_detected(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    with run_brokers(tmp_path / "brokers") as brokers:
        source = Brokers(brokers.bootstrap)
        brokers.create_topic("orders")
        brokers.produce("orders", 0, numbered_values(0, 100))
        archive(lake, source)
        brokers.produce("orders", 0, numbered_values(100, 200))
        brokers.call("delete_records", "orders", 0, 130)
        with pytest.raises(DataLost, match="orders/0: offsets 100 to 129"):
            archive(lake, source)
        report = archive(lake, source, fail_on_data_loss=False)
        assert (report.rows, [tuple(lost) for lost in report.lost]) == (70, [("orders", 0, 100, 130)])
        assert [offset for offset, _ in archived_values(lake, 0)] == [*range(100), *range(130, 200)]
        brokers.call("delete_topic", "orders")
        brokers.create_topic("orders")
        brokers.produce("orders", 0, numbered_values(0, 300))
        # The brokers' picture of topics is a second old at most, so reading may be the first to notice.
        with pytest.raises((LogReplaced, DataLost), match="deleted and created anew"):
            archive(lake, source)
        assert len(archived_values(lake, 0)) == 170


def test_an_undecodable_batch_ends_archiving_unless_it_is_to_be_skipped(tmp_path: Path) -> None:
    lake, files, data_dir = tmp_path / "lake", tmp_path / "files", tmp_path / "brokers" / "1"
    with run_brokers(tmp_path / "brokers") as brokers:
        brokers.create_topic("orders")
        brokers.produce("orders", 0, numbered_values(0, 1))
        brokers.call("produce_batches", "orders", 0, SMALL[0].batch)
        brokers.produce("orders", 0, numbered_values(2, 3))
        with pytest.raises(UndecodableBatch, match="orders/0"):
            archive(lake, Brokers(brokers.bootstrap))
        assert archived_values(lake, 0) == []
        with pytest.warns(UserWarning, match="left out"):
            assert archive(lake, Brokers(brokers.bootstrap, skip_undecodable=True)).rows == 2
    assert archived_values(lake, 0) == [(0, b"0"), (2, b"2")]
    with pytest.raises(UndecodableBatch, match="orders/0"):
        archive(files, Segments([str(data_dir)]))
    with pytest.warns(UserWarning, match="left out"):
        archive(files, Segments([str(data_dir)], skip_undecodable=True))
    assert archived_values(files, 0) == archived_values(lake, 0)
