"""`raftlog.Log` on a real disk: append, read, follow, truncate, trim, threads, two processes."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import raftlog
from raftlog.errors import (
    DirectoryLocked,
    FormatError,
    InvalidArgument,
    InvalidBatch,
    LogClosed,
    NotAtBatchBorder,
    OffsetOutOfRange,
    RecordTooLarge,
    UndecodableBatch,
)
from raftlog.records import Compression, NewRecord, build_batch, read_header
from raftlog.topic_config import LogConfig
from tests.undecodable import SMALL, TIMESTAMP_MS, Undecodable, read_until_error


def values(log: raftlog.Log, *args: int) -> list[bytes | None]:
    return [record.value for record in log.read(*args)]


@pytest.mark.parametrize("sent", SMALL, ids=[each.name for each in SMALL])
def test_an_undecodable_batch_ends_reading_and_the_error_has_the_next_offset(tmp_path: Path, sent: Undecodable) -> None:
    with raftlog.Log.open(tmp_path / "log") as log:
        log.append([NewRecord(b"before", timestamp=TIMESTAMP_MS - 1)])
        log.append_batches(sent.batch)
        behind = log.append([NewRecord(b"behind", timestamp=TIMESTAMP_MS + 1)])
        found, error = read_until_error(log.read(0))
        assert [record.offset for record in found] == list(range(error.offset))
        assert (error.base_offset, error.next_offset) == (1, behind)
        with pytest.raises(UndecodableBatch):
            list(log.follow(error.offset, idle_timeout_s=0.01))
        assert values(log, error.next_offset) == [b"behind"]
        assert [len(batch) for batch in log.read_batches(1, end=2)] == [len(sent.batch)]
        assert 1 <= log.offset_at(timestamp=TIMESTAMP_MS) <= error.offset, "a lookup never passes over it"
        assert log.offset_at(timestamp=TIMESTAMP_MS + 1) == behind
        assert log.verify().is_sound


def test_appended_records_are_read_after_reopening(tmp_path: Path) -> None:
    with raftlog.Log.open(tmp_path / "log") as log:
        assert log.append([b"a", b"b"]) == 0
        assert (
            log.append([NewRecord(b"c", key=b"k", timestamp=5, headers=[("h", b"v")])], compression=Compression.LZ4)
            == 2
        )
        assert (log.start_offset, log.end_offset) == (0, 3)
    with raftlog.Log.open(tmp_path / "log", create=False) as log:
        assert values(log) == [b"a", b"b", b"c"]
        last = next(iter(log.read(2)))
        assert (last.offset, last.key, last.timestamp, last.headers) == (2, b"k", 5, [("h", b"v")])
        assert log.report.batches_scanned == 0


def test_reading_begins_at_the_start_the_end_or_a_time(tmp_path: Path) -> None:
    with raftlog.Log.open(tmp_path / "log") as log:
        for number in range(10):
            log.append([NewRecord(b"%d" % number, timestamp=1000 + number)])
        assert values(log, log.offset_at(from_start=7)) == [b"7", b"8", b"9"]
        assert values(log, log.offset_at(from_end=2)) == [b"8", b"9"]
        assert values(log, log.offset_at(timestamp=1008)) == [b"8", b"9"]
        assert log.offset_at(timestamp=2000) == log.end_offset == log.offset_at(from_start=99)
        assert log.offset_at(from_end=99) == 0
        assert [record.value for record in log.read(3, end=5)] == [b"3", b"4"]
        with pytest.raises(InvalidArgument, match="exactly one"):
            log.offset_at(from_start=1, from_end=1)
        with pytest.raises(OffsetOutOfRange, match="0 to 10"):
            list(log.read(11))


def test_records_of_other_types_are_refused_by_name(tmp_path: Path) -> None:
    with raftlog.Log.open(tmp_path / "log") as log:
        for wrong, why in (
            (["x"], r"record 0 is str 'x'; encode it"),
            ([b"x", "y"], "record 1 is str 'y'"),
            ([5], "record 0 is int 5; give bytes or NewRecord"),
            (b"abc", "records is bytes"),
            ("abcd", "records is str"),
        ):
            with pytest.raises(InvalidArgument, match=why):
                log.append(wrong)  # type: ignore[arg-type]
        assert log.end_offset == 0


def test_prepared_batches_are_stamped_and_otherwise_unchanged(tmp_path: Path) -> None:
    bodies = [build_batch([b"x", b"y"], Compression.ZSTD), build_batch([b"z"])]
    with raftlog.Log.open(tmp_path / "log") as log:
        log.append([b"first"])
        assert log.append_batches(b"".join(bodies)) == (1, 4)
        stored = list(log.read_batches(1))
        assert [bytes(batch[16:]) for batch in stored] == [bytes(body[16:]) for body in bodies]
        assert [read_header(batch).base_offset for batch in stored] == [1, 3]
        with pytest.raises(InvalidBatch):
            log.append_batches(b"junk")
        assert log.end_offset == 4


def test_too_large_records_are_refused_and_nothing_is_stored(tmp_path: Path) -> None:
    with raftlog.Log.open(tmp_path / "log", LogConfig(max_message_bytes=2000)) as log:
        with pytest.raises(RecordTooLarge):
            log.append([bytes(3000)])
        assert log.append([b"ok"]) == 0


def test_the_log_can_be_truncated_and_trimmed(tmp_path: Path) -> None:
    with raftlog.Log.open(tmp_path / "log", LogConfig(segment_bytes=4096)) as log:
        for number in range(50):
            log.append([b"%03d" % number + bytes(200)] * 2)
        with pytest.raises(NotAtBatchBorder, match="offset 60 or 62"):
            log.truncate(61)
        log.truncate(60)
        assert log.append([b"new"]) == 60
        assert log.trim(33) == 33
        assert len(values(log)) == 28
        with pytest.raises(OffsetOutOfRange):
            list(log.read(32))
        with pytest.raises(OffsetOutOfRange):
            log.trim(100)
        stats = log.stats()
        assert stats.log_start_offset == 33
        assert stats.high_watermark == stats.log_end_offset == 61
    with raftlog.Log.open(tmp_path / "log") as log:
        assert (log.start_offset, log.end_offset) == (33, 61)
        assert values(log)[-1] == b"new"


def test_threads_share_syncs_and_every_append_returns_its_own_offset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs = 0
    real = os.fdatasync

    def count_sync(descriptor: int) -> None:
        nonlocal syncs
        syncs += 1
        real(descriptor)

    threads, each = 16, 60
    offsets: dict[bytes, int] = {}
    with raftlog.Log.open(tmp_path / "log") as log:
        monkeypatch.setattr(os, "fdatasync", count_sync)

        def append(number: int) -> None:
            for count in range(each):
                value = b"%d-%d" % (number, count)
                offsets[value] = log.append([value])
                assert log.end_offset > offsets[value], "it is visible, so durable, when append returns"

        workers = [threading.Thread(target=append, args=(number,)) for number in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert sorted(offsets.values()) == list(range(threads * each))
        assert {record.value: record.offset for record in log.read()} == offsets
        assert 0 < syncs < threads * each


def test_coalesced_appends_respect_the_largest_batch_and_fail_separately(tmp_path: Path) -> None:
    errors: list[Exception] = []
    with raftlog.Log.open(tmp_path / "log", LogConfig(max_message_bytes=1024)) as log:

        def append(number: int) -> None:
            for count in range(40):
                value = bytes(200 if number else 1100)
                try:
                    log.append([value, b"%d-%d" % (number, count)])
                except RecordTooLarge as error:
                    errors.append(error)

        workers = [threading.Thread(target=append, args=(number,)) for number in range(8)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert len(errors) == 40
        assert log.end_offset == 7 * 40 * 2
        assert all(len(batch) <= 1024 for batch in log.read_batches())


def test_readers_follow_while_a_writer_writes(tmp_path: Path) -> None:
    seen: list[list[int]] = [[], []]
    with raftlog.Log.open(tmp_path / "log", LogConfig(segment_bytes=4096)) as log:

        def follow(number: int) -> None:
            for record in log.follow(0):
                seen[number].append(record.offset)
                if record.offset == 299:
                    return

        readers = [threading.Thread(target=follow, args=(number,)) for number in range(2)]
        for reader in readers:
            reader.start()
        for _ in range(100):
            log.append([b"v" * 50] * 3)
        for reader in readers:
            reader.join(timeout=30)
    assert seen == [list(range(300))] * 2


def test_follow_ends_after_idle_time_and_when_the_log_is_closed(tmp_path: Path) -> None:
    log = raftlog.Log.open(tmp_path / "log")
    log.append([b"a"])
    assert [record.value for record in log.follow(0, idle_timeout_s=0.01)] == [b"a"]
    got: list[bytes | None] = []
    started = threading.Event()

    def follow() -> None:
        for record in log.follow(0):
            got.append(record.value)
            started.set()

    reader = threading.Thread(target=follow)
    reader.start()
    assert started.wait(10)
    log.close()
    reader.join(10)
    assert not reader.is_alive()
    assert got == [b"a"]


def test_a_relaxed_policy_answers_before_the_sync_and_flush_waits_for_it(tmp_path: Path) -> None:
    with raftlog.Log.open(tmp_path / "log", LogConfig(flush_messages=1000, flush_ms=60_000)) as log:
        assert log.append([b"a"]) == 0
        assert (log.end_offset, log.stats().log_end_offset) == (0, 1), "readers see only what is durable"
        log.flush()
        assert log.end_offset == 1
        log.append([b"x"] * 1000)
        log.flush()
        assert log.end_offset == 1001


def test_a_closed_log_is_named_in_the_error(tmp_path: Path) -> None:
    log = raftlog.Log.open(tmp_path / "log")
    log.close()
    log.close()
    with pytest.raises(LogClosed):
        log.append([b"a"])


def test_a_directory_without_a_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="does not exist"):
        raftlog.Log.open(tmp_path / "none", create=False)
    (tmp_path / "file").write_text("x")
    with pytest.raises(FormatError, match="not a directory"):
        raftlog.Log.open(tmp_path / "file")
    with pytest.raises(FormatError, match="not a raftlog log"):
        raftlog.Log.open(tmp_path)


HOLDER = """
import sys, raftlog
with raftlog.Log.open(sys.argv[1]):
    print("open", flush=True)
    sys.stdin.read()
"""


def test_two_processes_cannot_open_one_directory(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "log")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "open\n"
        with pytest.raises(DirectoryLocked, match="another process"):
            raftlog.Log.open(tmp_path / "log")
        other.communicate(timeout=30)
    raftlog.Log.open(tmp_path / "log").close()


WRITER = """
import sys, raftlog
log = raftlog.Log.open(sys.argv[1], raftlog.LogConfig(segment_bytes=1 << 16))
while True:
    offset = log.append([b"%d" % log.end_offset + bytes(100)])
    print(offset, flush=True)
"""


def test_kill_9_loses_no_acknowledged_record(tmp_path: Path) -> None:
    path = str(tmp_path / "log")
    answered = -1
    for round_number in range(5):
        command = [sys.executable, "-c", WRITER, path]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            for _ in range(100 + 37 * round_number):
                answered = int(writer.stdout.readline())
            writer.kill()
            whole_lines = writer.stdout.read().split("\n")[:-1]
            answered = max([answered, *map(int, whole_lines)])
        with raftlog.Log.open(path) as log:
            assert log.damage is None
            assert log.end_offset > answered
            for record in log.read():
                assert record.value is not None
                assert record.value[:-100] == b"%d" % record.offset
            assert log.verify().is_sound


def test_verify_detects_a_flipped_bit(tmp_path: Path) -> None:
    with raftlog.Log.open(tmp_path / "log") as log:
        for _ in range(20):
            log.append([b"v" * 100])
        assert log.verify().is_sound
        [file] = (tmp_path / "log").glob("*.log")
        data = bytearray(file.read_bytes())
        data[1500] ^= 4
        file.write_bytes(data)
        [problem] = log.verify().problems
        assert problem.file == str(file)
        assert problem.position <= 1500 < problem.position + 200


def test_a_clone_beside_a_program_does_not_shadow_the_package(tmp_path: Path) -> None:
    """A directory `raftlog` without modules is a namespace package, which takes precedence over an import hook."""
    (tmp_path / "raftlog" / "docs").mkdir(parents=True)
    program = tmp_path / "program.py"
    program.write_text("import raftlog; print(raftlog.Log.__name__)")
    done = subprocess.run([sys.executable, program], capture_output=True, cwd=tmp_path, timeout=60, check=False)
    assert done.stdout == b"Log\n", done.stderr.decode()
