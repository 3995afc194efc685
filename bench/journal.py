"""Measures of a journal with many Raft groups: cost of further busy groups, and time to read a large journal."""

import os
import time
import uuid
from collections import deque
from collections.abc import Callable
from pathlib import Path
from statistics import median

from bench.child import run_in_child
from bench.measure import Figure, Measure, Values, Workspace, require
from bench.samples import percentile
from bench.syncs import count_syncs
from raftlog.records import NewRecord, build_batch
from raftlog.runtime.journal.config import JournalConfig
from raftlog.runtime.journal.journal import Journal
from raftlog.runtime.journal.operations import Append, GroupKey
from raftlog.storage.real_disk import RealDisk
from raftlog.topic_config import GIB, MIB
from raftlog.types import Index

GROUPS = 100
ROUNDS = 1_000
VALUE_BYTES = 200
DISK_UUID = uuid.UUID(int=1)
JOURNAL_BYTES = GIB
_APPENDS_PER_FRAME = 10_000
_CONFIG = JournalConfig(checkpoint_bytes=4 * GIB, journal_bytes_max=2 * GIB)


class Writer:
    """Writer of one journal for many Raft groups; each append is one entry with one record."""

    def __init__(self, path: str, groups: int, *, by_call: bool = False) -> None:
        self._jobs: deque[Callable[[], None]] = deque()
        self.journal, _ = Journal.open(RealDisk(self._jobs.append), path, DISK_UUID, _CONFIG, create=True)
        self._by_call = by_call
        self._batches = [bytes(build_batch([NewRecord(os.urandom(VALUE_BYTES))])) for _ in range(GROUPS)]
        self.last: dict[GroupKey, int] = dict.fromkeys((uuid.UUID(int=n).bytes for n in range(1, groups + 1)), 0)

    def append_to_all(self) -> None:
        """Append one entry for each Raft group, with one call for all, or with `by_call` one for each."""
        operations = []
        for number, (group, last) in enumerate(self.last.items()):
            index = Index(last + 1)
            operations.append(Append(group, index, index, (self._batches[number],)))
            self.last[group] = index
        if self._by_call:
            for operation in operations:
                self.journal.append((operation,))
        else:
            self.journal.append(operations)

    def sync(self) -> None:
        """Wait until all appended data is durable."""
        self.journal.flush()
        while self._jobs:
            self._jobs.popleft()()

    def append_round(self) -> float:
        """Append one entry for each group; return the seconds until all are durable."""
        begin = time.perf_counter()
        self.append_to_all()
        self.sync()
        return time.perf_counter() - begin


def compare_rounds(path: str) -> dict[str, float]:
    """Run rounds of one Raft group and of many in turn, under the same disk conditions; in a child process."""
    writers = {
        "one": Writer(f"{path}/one", 1),
        "many": Writer(f"{path}/many", GROUPS),
        "calls": Writer(f"{path}/calls", GROUPS, by_call=True),
    }
    took: dict[str, list[float]] = {name: [] for name in writers}
    with count_syncs() as syncs:
        for _ in range(ROUNDS):
            for name, writer in writers.items():
                took[name].append(writer.append_round())
        synced = syncs.total
    for writer in writers.values():
        writer.journal.close()
    p50 = {name: median(rounds) for name, rounds in took.items()}
    return {
        "one_ms": p50["one"] * 1000,
        "many_ms": p50["many"] * 1000,
        "many_p99_ms": percentile(sorted(took["many"]), 99) * 1000,
        "ratio": p50["many"] / p50["one"],
        "ratio_by_call": p50["calls"] / p50["one"],
        "fdatasyncs": synced,
        "groups_read": _read_back(f"{path}/many", ROUNDS),
    }


def _read_back(path: str, last: int) -> int:
    """Open the journal again; return the number of Raft groups whose last entry is `last`."""
    journal, fold = Journal.open(RealDisk(lambda job: job()), path, DISK_UUID, _CONFIG)
    journal.close()
    return sum(group.last_index == last for group in fold.groups.values())


def run_groups(workspace: Workspace) -> Values:
    with workspace.directory() as directory:
        done = run_in_child(compare_rounds, path=str(directory))
    require(done["groups_read"] == GROUPS, f"{done['groups_read']} of {GROUPS} groups have all of their entries")
    require(done["fdatasyncs"] >= 3 * ROUNDS, f"{done['fdatasyncs']} syncs for {3 * ROUNDS} rounds")
    return done


def write_journal(path: str, size: int) -> dict[str, float]:
    """Write a journal of `size` bytes since its checkpoint; in a child process."""
    writer = Writer(path, GROUPS)
    while writer.journal.live_bytes < size:
        for _ in range(_APPENDS_PER_FRAME // GROUPS):
            writer.append_to_all()
        writer.sync()
    writer.journal.close()
    return {"entries": sum(writer.last.values()), "bytes": writer.journal.live_bytes}


def open_journal(path: str) -> dict[str, float]:
    """Measure the time to open the journal; in a child process."""
    begin = time.perf_counter()
    journal, fold = Journal.open(RealDisk(lambda job: job()), path, DISK_UUID, _CONFIG)
    seconds = time.perf_counter() - begin
    journal.close()
    return {"seconds": seconds, "entries": sum(group.last_index for group in fold.groups.values())}


def drop_from_page_cache(directory: Path) -> None:
    """Sync the files of a directory, and drop them from the page cache."""
    for file in directory.iterdir():
        descriptor = os.open(file, os.O_RDONLY)
        os.fdatasync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def run_recovery(workspace: Workspace) -> Values:
    with workspace.directory() as directory:
        path = directory / "journal"
        written = run_in_child(write_journal, path=str(path), size=JOURNAL_BYTES)
        drop_from_page_cache(path)
        cold = run_in_child(open_journal, path=str(path))
        warm = run_in_child(open_journal, path=str(path))
    for opened in (cold, warm):
        require(opened["entries"] == written["entries"], f"{opened['entries']} of {written['entries']} entries found")
    return {
        "cold_s": cold["seconds"],
        "warm_s": warm["seconds"],
        "entries": written["entries"],
        "mib": written["bytes"] / MIB,
    }


MEASURES = (
    Measure(
        "journal-groups",
        f"journal: a round of {GROUPS} groups beside one of one group",
        f"A round is one append of one record of {VALUE_BYTES} bytes for each group, all of them handed over by one "
        f"call, and the sync that makes them durable. {ROUNDS} rounds of one group and of {GROUPS} groups, in turn, "
        "each with a journal of its own; then the same with a call for each group. os.fdatasync is counted. Afterwards "
        "the journal is opened again and has to hold every entry.",
        (
            Figure("ratio", f"round of {GROUPS} groups ÷ round of one group", "×", at_most=2.0),
            Figure("one_ms", "round of one group, p50", "ms"),
            Figure("many_ms", f"round of {GROUPS} groups, p50", "ms"),
            Figure("many_p99_ms", "… p99", "ms"),
            Figure("ratio_by_call", f"the same with {GROUPS} calls ÷ round of one group", "×"),
        ),
        run_groups,
    ),
    Measure(
        "journal-recovery",
        "journal: opening with 1 GiB since the checkpoint",
        f"{GROUPS} groups append entries of one record of {VALUE_BYTES} bytes until 1 GiB of journal lies behind the "
        "last checkpoint. Its pages are dropped from the page cache, a fresh process times Journal.open from call to "
        "return and has to find every entry; then another one, page cache warm.",
        (
            Figure("cold_s", "open, pages from the device", "s", at_most=3.0),
            Figure("warm_s", "open, pages from the cache", "s"),
        ),
        run_recovery,
    ),
)
