"""Measure of the library with one writer: batches are built and appended, each synced before its append returns."""

import time

import raftlog
from bench.child import run_in_child
from bench.measure import Figure, Measure, Values, Workspace, require
from bench.samples import RECORDS_PER_BATCH, VALUE_BYTES, values
from bench.syncs import count_syncs

SECONDS = 4.0
_DIFFERENT_BATCHES = 100


def append_batches(path: str, seconds: float) -> dict[str, float]:
    """Append for `seconds`; in a child process."""
    pool = [values(RECORDS_PER_BATCH) for _ in range(_DIFFERENT_BATCHES)]
    appends = unsynced = 0
    with raftlog.Log.open(path) as log, count_syncs() as syncs:
        begin = time.perf_counter()
        until = begin + seconds
        while time.perf_counter() < until:
            before = syncs.total
            log.append(pool[appends % _DIFFERENT_BATCHES])
            unsynced += syncs.total == before
            appends += 1
        elapsed = time.perf_counter() - begin
        synced = syncs.total
    with raftlog.Log.open(path, create=False) as log:
        stored = log.end_offset
    return {
        "records_per_s": appends * RECORDS_PER_BATCH / elapsed,
        "mb_per_s": appends * RECORDS_PER_BATCH * VALUE_BYTES / elapsed / 1e6,
        "appends": appends,
        "appends_without_sync": unsynced,
        "fdatasyncs": synced,
        "records_stored": stored,
    }


def run(workspace: Workspace) -> Values:
    with workspace.directory() as path:
        done = run_in_child(append_batches, path=str(path / "log"), seconds=SECONDS)
    require(done["appends_without_sync"] == 0, f"{done['appends_without_sync']} appends returned without an fdatasync")
    require(
        done["records_stored"] == done["appends"] * RECORDS_PER_BATCH,
        f"the reopened log holds {done['records_stored']} records after {done['appends']} appends",
    )
    return done


MEASURES = (
    Measure(
        "library-append",
        "library: build and append, synced, one writer",
        f"One thread calls Log.append with {RECORDS_PER_BATCH:,} values of {VALUE_BYTES} random bytes for "
        f"{SECONDS:g} s ({_DIFFERENT_BATCHES} different batches in turn). Building the batch is inside the time, "
        "making the values is not. os.fdatasync is counted: an append that returns without one fails the measure. The "
        "log is closed, opened again and has to hold every record.",
        (
            Figure("records_per_s", "records built and appended", "records/s", at_least=1_500_000),
            Figure("mb_per_s", "… of their values", "MB/s"),
        ),
        run,
    ),
)
