"""Whole clusters verified: compacted replicas, running and stopped brokers, and an archive against their logs."""

import shutil
from itertools import pairwise
from pathlib import Path

from raftlog.records import NewRecord, read_header
from raftlog.records.header import batch_crc
from raftlog.storage.gap import GAP, GAP_VERSION, read_gap
from tests.pipeline.brokers_here import run_brokers
from tests.pipeline.verifying import archive_of, dump, flip, run_log_verify, run_verify
from tests.runtime.compacted_world import CONFIG, commit_mark, is_compacted, write
from tests.runtime.drivers import World
from tests.waiting import block_until


def test_compacted_and_uncompacted_replicas_are_equal(tmp_path: Path) -> None:
    """Below the compaction mark the newest record of each key is compared, above it every byte."""
    with World(config=CONFIG) as world:
        leader = world.leader()
        write(world, leader, 120)
        slow = next(number for number in world.drivers if number != leader)
        [other] = {1, 2, 3} - {leader, slow}
        world.run(2.2)  # checkpoints are behind it, so the files count
        world.crash(slow)
        to = commit_mark(world, leader)
        for number in world.drivers:
            world.run_until(lambda number=number: is_compacted(world, number, to))  # type: ignore[misc]
        write(world, leader, 10, tag=b"later ")
        world.converge()
        for number in list(world.drivers):
            world.crash(number)
        directories = dump(world, tmp_path)
    report = run_verify(*directories)
    assert (report.problems, run_log_verify(*directories).is_sound) == ((), True)
    files = [sorted(each.rglob("*.log")) for each in directories]
    sizes = [sum(file.stat().st_size for file in each) for each in files]
    assert min(sizes) < sizes[slow - 1] / 2
    archive_of(directories[slow - 1], tmp_path / "archive")
    report = run_verify(directories[leader - 1], archive=str(tmp_path / "archive"))
    assert report.problems == ()
    assert sum(each.records for each in report.archive) < 40  # of 120 in the archive
    [newest] = [file for file, newer in pairwise(files[slow - 1]) if int(newer.stem) == to]
    alter_last_record(newest)
    report = run_verify(*directories)
    [problem] = report.problems
    assert f"the newest record of a key differs at offset {to - 1}" in problem
    assert run_log_verify(*directories) == (set(), 1)
    alter_gap(files[other - 1][0])
    report, wanted = run_verify(*directories), run_log_verify(*directories)
    assert wanted.problems < set(report.problems)
    assert "it is a gap from entry" in "".join(wanted.problems)
    flip(files[leader - 1][0], 300)
    report, wanted = run_verify(*directories), run_log_verify(*directories)
    assert wanted.problems < set(report.problems)


def test_a_replica_behind_the_compaction_of_others_is_noted(tmp_path: Path) -> None:
    with World(config=CONFIG) as world:
        leader = world.leader()
        write(world, leader, 60)
        slow = next(number for number in world.drivers if number != leader)
        world.run(2.2)
        world.crash(slow)
        write(world, leader, 60)
        world.run(2.2)
        to = commit_mark(world, leader)
        others = list(world.drivers)
        for number in others:
            world.run_until(lambda number=number: is_compacted(world, number, to))  # type: ignore[misc]
        for number in others:
            world.crash(number)
        directories = dump(world, tmp_path)
    report = run_verify(*directories)
    assert report.problems == ()
    [note] = [each for each in report.notes if "was not compared" in each]
    assert str(directories[slow - 1]) in note
    assert run_log_verify(*directories).is_sound
    others_only = [each for number, each in enumerate(directories, 1) if number != slow]
    assert run_verify(*others_only).problems == ()


def test_a_log_whose_segments_are_all_compacted_is_compared_with_an_uncompacted_one(tmp_path: Path) -> None:
    with World(config=CONFIG) as world:
        leader = world.leader()
        write(world, leader, 60)
        world.run(2.2)
        (tmp_path / "before").mkdir()
        [before, *_] = dump(world, tmp_path / "before")
        to = commit_mark(world, leader)
        world.run_until(lambda: is_compacted(world, 1, to))
        [after, *_] = dump(world, tmp_path / "after")
    copies = [copy_log(each, tmp_path / name) for each, name in ((before, "a"), (after, "b"))]
    for file in copies[1].glob(f"{to:020d}.*"):
        file.unlink()
    assert run_verify(tmp_path / "a", tmp_path / "b").problems == ()
    newest, _ = sorted(copies[0].glob("*.log"))[-2:]
    alter_last_record(newest)
    [problem] = run_verify(tmp_path / "a", tmp_path / "b").problems
    assert "the newest record of a key differs" in problem


def copy_log(data_dir: Path, target: Path) -> Path:
    """Copy the log of the only partition out of its data directory; return the new directory."""
    [log] = {each.parent for each in data_dir.rglob("*.log")}
    return shutil.copytree(log, target / log.relative_to(data_dir))


def copy_with_end_offset(end_offset: int, data: Path, copy: Path) -> None:
    """Copy the directories of running brokers until all replicas of `orders/0` in the copy have this end offset."""

    def copy_once() -> bool:
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(data, copy)
        ends = [each.end_offset for each in run_verify(copy, topics=["orders"]).partitions if each.partition == 0]
        return ends == [end_offset]

    block_until(copy_once)


def alter_last_record(file: Path) -> None:
    """Change the last record within a valid batch and delete the index, which would contradict it."""
    content, at, last = bytearray(file.read_bytes()), 0, 0
    while at < len(content):
        at, last = at + read_header(content, at).size, at
    batch = memoryview(content)[last:]
    batch[-3] ^= 1
    batch[17:21] = batch_crc(batch).to_bytes(4)
    file.write_bytes(content)
    file.with_suffix(".index").unlink()


def alter_gap(file: Path) -> None:
    """Change the end of a file's first gap and delete the index, which would contradict it."""
    content, at = bytearray(file.read_bytes()), 0
    while (gap := read_gap(memoryview(content)[at:], header := read_header(content, at))) is None:
        at += header.size
    batch = memoryview(content)[at : at + header.size]
    payload = GAP.pack(GAP_VERSION, *gap)
    where = bytes(batch).index(payload)
    batch[where : where + len(payload)] = GAP.pack(GAP_VERSION, *gap._replace(first_index=gap.first_index + 1))
    batch[17:21] = batch_crc(batch).to_bytes(4)
    file.write_bytes(content)
    file.with_suffix(".index").unlink()


def test_running_and_stopped_brokers_match_their_archive(tmp_path: Path) -> None:
    with run_brokers(tmp_path / "data", 3) as brokers:
        brokers.create_topic("orders", 2, segment_bytes="100000")
        records = [
            NewRecord(b"%d " % number * 20, b"%d" % (number % 50), 86_400_000 * (number % 2)) for number in range(3000)
        ]
        brokers.produce("orders", 0, records)
        brokers.produce("orders", 1, records[:500])
        brokers.call("delete_records", "orders", 1, 200)
        copy_with_end_offset(3000, tmp_path / "data", tmp_path / "copy")
    for directory in ("copy", "data"):
        report = run_verify(tmp_path / directory)
        assert report.problems == ()
        names = {(each.topic, each.partition): each for each in report.partitions}
        assert {("__controller", 0), ("orders", 0), ("orders", 1)} <= set(names)
        assert all(each.replicas == 3 for each in report.partitions)
        assert (names["orders", 0].end_offset, names["orders", 0].is_compared) == (3000, True)
        assert run_log_verify(tmp_path / directory).is_sound
    archive_of(tmp_path / "copy", tmp_path / "archive")
    report = run_verify(tmp_path / "data", topics=["orders"], archive=str(tmp_path / "archive"))
    assert report.problems == ()
    compared = [(each.partition, each.start, each.end, each.records) for each in report.archive]
    assert compared == [(0, 0, 3000, 3000), (1, 200, 500, 300)]
