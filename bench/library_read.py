"""Measure of sequential reads of a log in the page cache: stored batches as they are, and decoded records."""

import time
from pathlib import Path

import raftlog
from bench.child import run_in_child
from bench.measure import Figure, Measure, Values, Workspace, require
from bench.samples import RECORDS_PER_BATCH, VALUE_BYTES, batches

LOG_BYTES = 512 << 20
_DIFFERENT_BATCHES = 100
_BATCHES_PER_APPEND = 10
_ATTEMPTS_MAX = 3
_CACHED_READS_MAX = 1 << 20
"""Bytes that the timed passes may read from the device; more would mean that they did not read from the page cache."""


def read_all(path: str, log_bytes: int) -> dict[str, float]:
    """Write the log, then read it three times: to fill the cache, raw, and decoded; in a child process.

    If a timed pass read from the device, because the kernel dropped cached pages, all three passes are repeated.
    """
    written = _write(path, log_bytes)
    with raftlog.Log.open(path, create=False) as log:
        for _attempt in range(_ATTEMPTS_MAX):
            for _ in log.read_batches():
                pass
            passes = _time_passes(log)
            if passes["bytes_from_device"] < _CACHED_READS_MAX:
                break
    return {**passes, "records_written": written}


def _time_passes(log: raftlog.Log) -> dict[str, float]:
    device_before = _bytes_from_device()
    begin = time.perf_counter()
    raw_bytes = sum(map(len, log.read_batches()))
    raw_s = time.perf_counter() - begin
    begin = time.perf_counter()
    records = value_bytes = 0
    for record in log.read():
        value = record.value
        assert value is not None
        value_bytes += len(value)
        records += 1
    decoded_s = time.perf_counter() - begin
    return {
        "raw_gb_per_s": raw_bytes / raw_s / 1e9,
        "decoded_records_per_s": records / decoded_s,
        "raw_bytes": raw_bytes,
        "records": records,
        "value_bytes": value_bytes,
        "bytes_from_device": _bytes_from_device() - device_before,
    }


def _write(path: str, log_bytes: int) -> int:
    pool = batches(_DIFFERENT_BATCHES)
    runs = [b"".join(pool[at : at + _BATCHES_PER_APPEND]) for at in range(0, len(pool), _BATCHES_PER_APPEND)]
    appends = 0
    with raftlog.Log.open(path) as log:
        while log.stats().size_bytes < log_bytes:
            log.append_batches(runs[appends % len(runs)])
            appends += 1
    return appends * _BATCHES_PER_APPEND * RECORDS_PER_BATCH


def _bytes_from_device() -> int:
    """Return the bytes that this process caused to be read from the device (proc(5), read_bytes)."""
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(fields["read_bytes"])


def run(workspace: Workspace) -> Values:
    with workspace.directory() as path:
        done = run_in_child(read_all, path=str(path / "log"), log_bytes=LOG_BYTES)
    require(done["raw_bytes"] >= LOG_BYTES * 0.99, f"only {done['raw_bytes']} bytes were read")
    require(done["records"] == done["records_written"], f"{done['records']} of {done['records_written']} records read")
    require(done["value_bytes"] == done["records"] * VALUE_BYTES, "the values have another size than those written")
    from_device = done["bytes_from_device"]
    require(from_device < _CACHED_READS_MAX, f"{from_device:,} bytes came from the device; is memory short?")
    return done


MEASURES = (
    Measure(
        "library-read",
        "library: sequential read from page cache",
        f"A log of {LOG_BYTES >> 20} MiB ({RECORDS_PER_BATCH:,} records of {VALUE_BYTES} bytes a batch) is written, "
        "opened again and read once to warm the cache. Then Log.read_batches is timed over all of it (each batch "
        "checked against row and CRC), and Log.read with the value of each record looked at. /proc/self/io has to show "
        "that nothing came from the device.",
        (
            Figure("raw_gb_per_s", "stored batches, checked", "GB/s", at_least=1.5),
            Figure("decoded_records_per_s", "decoded records", "records/s", at_least=3_000_000),
        ),
        run,
    ),
)
