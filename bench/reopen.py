"""Measures of opening a log after a crash of its writer, and of the scrub below the last checkpoint.

The worst case is measured: the writer is killed shortly before its next checkpoint is due, so recovery has the most to
read."""

import itertools
import json
import selectors
import struct
import subprocess
import time
from pathlib import Path
from typing import IO, NamedTuple

import raftlog
from bench.child import command_for, run_in_child
from bench.measure import Figure, Measure, MeasureFailed, Values, Workspace, require
from bench.samples import batches
from raftlog.storage.lone_log import LoneLog
from raftlog.storage.real_disk import RealDisk
from raftlog.topic_config import LogConfig

SIZES = {"256_mib": 256 << 20, "1_gib": 1 << 30}
PAST_CHECKPOINT_BYTES = 56 << 20
"""Bytes acknowledged between the last checkpoint and the kill; a checkpoint is due every 64 MiB."""
_BATCH_RECORDS = 151
"""Records of 100 bytes that make a batch of nearly 16 KiB."""
_BATCHES_PER_APPEND = 64
_DIFFERENT_APPENDS = 4
_SILENCE_S_MAX = 30.0
_SCRUB_SLICE_BYTES = 1 << 20
_BATCH_HEAD = struct.Struct(">qi")
"""Fields baseOffset and batchLength, with which every batch begins; batchLength counts the bytes after itself."""


class Batch(NamedTuple):
    """Position of one batch in a segment file."""

    position: int
    size: int
    offset: int


def write_endlessly(path: str) -> dict[str, int]:
    """Append batches of 16 KiB, 1 MiB per sync, and print the acknowledged end after each; in a child process."""
    pool = [b"".join(batches(_BATCHES_PER_APPEND, _BATCH_RECORDS)) for _ in range(_DIFFERENT_APPENDS)]
    with raftlog.Log.open(path) as log:
        for number in itertools.count():
            _, end = log.append_batches(pool[number % len(pool)])
            print(end, log.stats().size_bytes, flush=True)
    raise AssertionError("the writer is killed, it does not end")


def reopen(path: str) -> dict[str, float]:
    """Measure the time to open the log, and check that it accepts an append; in a child process."""
    begin = time.perf_counter()
    log = raftlog.Log.open(path, create=False)
    seconds = time.perf_counter() - begin
    with log:
        report, end = log.report, log.end_offset
        appended_at = log.append([b"after the kill"])
        size = log.stats().size_bytes
    return {
        "seconds": seconds,
        "bytes_scanned": report.bytes_scanned,
        "torn_bytes": sum(tail.bytes_cut for tail in report.torn),
        "damage": len(report.damage),
        "end_offset": end,
        "appended_at": appended_at,
        "size_bytes": size,
    }


def scrub(path: str) -> dict[str, float | str]:
    """Open a log with a flipped bit below its checkpoint, and scrub until it is found; in a child process."""
    disk = RealDisk(lambda job: job())
    begin = time.perf_counter()
    log = LoneLog.open(disk, path, LogConfig(), clock=lambda: time.time_ns() // 1_000_000, create=False)
    opened_s = time.perf_counter() - begin
    found: dict[str, float | str] = {"opened_s": opened_s, "seen_on_opening": len(log.report.damage), "read_bytes": 0}
    begin = time.perf_counter()
    has_finished = False
    while not has_finished and "file" not in found:
        progress = log.scrub_slice(_SCRUB_SLICE_BYTES)
        found["read_bytes"] = float(found["read_bytes"]) + progress.bytes_read
        has_finished = progress.has_finished
        if progress.damage:
            where = progress.damage
            found |= {"file": where.file, "position": where.position, "offset": where.offset, "why": where.why}
    found["seconds"] = time.perf_counter() - begin
    log.close()
    return found


def kill_writer(path: Path, size: int) -> int:
    """Write past `size` bytes and a later checkpoint, then kill the writer; return the acknowledged end offset."""
    with subprocess.Popen(
        command_for(write_endlessly), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdin
        assert writer.stdout
        try:
            writer.stdin.write(json.dumps({"path": str(path)}))
            writer.stdin.close()
            return _wait_for_size(writer.stdout, path, size)
        finally:
            writer.kill()


def _wait_for_size(lines: IO[str], path: Path, size: int) -> int:
    """Read the writer's output until the log has the size and a later checkpoint; return the acknowledged end."""
    checkpoint = path / ".raftlog" / "checkpoint"
    at_size: bytes | None = None
    kill_at: int | None = None
    with selectors.DefaultSelector() as selector:
        selector.register(lines, selectors.EVENT_READ)
        while selector.select(_SILENCE_S_MAX):
            end, stored = map(int, (lines.readline() or "0 0").split())
            if not end:
                raise MeasureFailed("the writer ended before it was killed")
            if at_size is None and stored >= size:
                at_size = checkpoint.read_bytes()
            elif at_size is not None and kill_at is None and checkpoint.read_bytes() != at_size:
                kill_at = stored + PAST_CHECKPOINT_BYTES
            if kill_at is not None and stored >= kill_at:
                return end
    raise MeasureFailed(f"the writer acknowledged nothing for {_SILENCE_S_MAX:g} s")


def flip_bit(segment: Path) -> Batch:
    """Flip a bit in the middle of the batch at a third of the file; return that batch.

    The batch is found by walking the batch lengths of the file, without the code that has to find the flip.
    """
    target = segment.stat().st_size // 3
    with segment.open("r+b") as file:
        position = 0
        while True:
            file.seek(position)
            offset, length = _BATCH_HEAD.unpack(file.read(_BATCH_HEAD.size))
            batch = Batch(position, length + _BATCH_HEAD.size, offset)
            if position + batch.size > target:
                break
            position += batch.size
        middle = position + batch.size // 2
        file.seek(middle)
        byte = file.read(1)[0]
        file.seek(middle)
        file.write(bytes([byte ^ 0x10]))
    return batch


def run(workspace: Workspace) -> Values:
    """Kill the writer of logs of several sizes; measure their reopening, and the scrub of the largest one."""
    values: dict[str, float | str] = {}
    for name, size in SIZES.items():
        with workspace.directory() as directory:
            path = directory / "log"
            acknowledged = kill_writer(path, size)
            opened = run_in_child(reopen, path=str(path))
            _check_reopened(opened, acknowledged, size)
            values |= {f"{key}_{name}": value for key, value in opened.items()}
            if size == max(SIZES.values()):
                values |= _measure_scrub(path)
    values["growth"] = float(values["seconds_1_gib"]) / float(values["seconds_256_mib"])
    return values


def _check_reopened(opened: Values, acknowledged: int, size: int) -> None:
    """Check that a reopened log is undamaged, and has all acknowledged records."""
    require(opened["damage"] == 0, "the killed log was taken for damaged")
    require(float(opened["end_offset"]) >= acknowledged, f"{acknowledged} acknowledged, {opened['end_offset']} found")
    require(opened["appended_at"] == opened["end_offset"], "the reopened log appended at another offset than its end")
    require(float(opened["size_bytes"]) >= size, f"the log has only {opened['size_bytes']} bytes")


def _measure_scrub(path: Path) -> dict[str, float | str]:
    """Flip a bit below the checkpoint; return whether the scrub finds it, and the scrub's rate."""
    segment = min(path.glob("*.log"))
    flipped = flip_bit(segment)
    found = run_in_child(scrub, path=str(path))
    require(found["seen_on_opening"] == 0, "opening saw the flip, so it was not below the checkpoint")
    wanted = (str(segment), flipped.position, flipped.offset)
    seen = (found.get("file"), found.get("position"), found.get("offset"))
    return {
        "flips_found": float(seen == wanted),
        "flip_named": f"position {seen[1]}, offset {seen[2]}: {found.get('why')}",
        "scrub_gb_per_s": found["read_bytes"] / found["seconds"] / 1e9,
        "opened_above_flip_s": found["opened_s"],
    }


MEASURES = (
    Measure(
        "reopen",
        "library: reopen after SIGKILL, batches of 16 KiB",
        "A process appends batches of 16 KiB (64 a sync) until the log has its size and a checkpoint was taken past "
        f"it, goes on for {PAST_CHECKPOINT_BYTES >> 20} MiB and is killed while it writes: nearly the most that can "
        "lie behind a checkpoint. A fresh process times raftlog.Log.open from call to return, page cache warm, finds "
        "every acknowledged record and appends one. Once with 256 MiB and once with 1 GiB. Then one bit is flipped a "
        "third into the first segment of the larger log: opening must not see it (it reads nothing there), "
        "the scrub has to name file, position and offset.",
        (
            Figure("seconds_1_gib", "open, 1 GiB", "s", at_most=1.0),
            Figure("seconds_256_mib", "open, 256 MiB", "s", at_most=1.0),
            Figure("growth", "1 GiB ÷ 256 MiB (not growing: about 1)", "×", at_most=1.5),
            Figure("opened_above_flip_s", "open, 1 GiB, stopped cleanly", "s"),
            Figure("flips_found", "flips below the checkpoint that the scrub names, of 1", "", at_least=1),
            Figure("scrub_gb_per_s", "speed of the scrub, unthrottled", "GB/s"),
        ),
        run,
    ),
)
