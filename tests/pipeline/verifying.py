"""Verification in this process, and the verdict of `raftlog log verify --compare` on the same directories."""

import os
import pickle
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from raftlog.cli.log.compare import _find_replicas
from raftlog.pipeline.archives.archive import archive_in_batches
from raftlog.pipeline.archives.files import files_at
from raftlog.pipeline.archives.log_sources import Segments
from raftlog.pipeline.options import TopicChoice
from raftlog.pipeline.segments.replicas import real_disk
from raftlog.pipeline.verification import VerifyReport
from raftlog.pipeline.verification.job import verify_by
from raftlog.runtime.log.offline import OfflineReplica, compare_replicas
from raftlog.runtime.log.sealed_file import write_sealed
from raftlog.runtime.node_identity import IDENTITY
from raftlog.storage.directory import internal_path
from raftlog.storage.log_directories import find_log_directories
from raftlog.storage.verify import verify_log
from tests.pipeline.archives import run_one_by_one
from tests.runtime.drivers import World

S = TypeVar("S")
R = TypeVar("R")
SPLIT_BYTES = 4096


def run_here(what: str, splits: Sequence[S], work: Callable[[S], Iterable[R]], /) -> list[R]:
    """Run work as Spark does: splits and results are pickled, as between processes."""
    results = [list(work(split)) for split in pickle.loads(pickle.dumps(splits))]
    return [result for each in results for result in pickle.loads(pickle.dumps(each))]


def run_verify(*paths: Path, split_bytes: int = SPLIT_BYTES, **options: Any) -> VerifyReport:
    return verify_by(run_here, [str(path) for path in paths], split_bytes=split_bytes, **options)


class Expected(NamedTuple):
    """Verdict of `raftlog log verify --compare`."""

    problems: set[str]
    differing: int

    @property
    def is_sound(self) -> bool:
        return not self.problems and not self.differing


def run_log_verify(*paths: Path) -> Expected:
    """Return the verdict of `raftlog log verify --compare` on these directories."""
    disk = real_disk()
    logs = [log for path in paths for log in find_log_directories(str(path))]
    problems = {str(problem) for log in logs for problem in verify_log(disk, log).problems}
    groups: dict[bytes, list[OfflineReplica]] = {}
    for replica in _find_replicas(disk, logs):
        groups.setdefault(replica.group_id.bytes, []).append(replica)
    compared = [compare_replicas(disk, each) for each in groups.values() if len(each) > 1]
    return Expected(problems, sum(each.difference is not None for each in compared))


def dump(world: World, directory: Path) -> list[Path]:
    """Write the disks of simulated processes to data directories."""
    found = []
    for number, disk in enumerate(world.disks, 1):
        data_dir = directory / str(number)
        for name, data in disk.snapshot().items():
            if name.startswith("/data/"):
                file = data_dir / name.removeprefix("/data/")
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(data)
        fields = {"cluster_id": None, "node_id": number, "disk_uuid": str(world.ids[number - 1].disk_uuid)}
        path = internal_path(str(data_dir), IDENTITY)
        write_sealed(real_disk(), path, IDENTITY, {**fields, "boot_epoch": 1, "has_journal": True})
        found.append(data_dir)
    return found


def require_same_verdict(told: VerifyReport, wanted: Expected) -> None:
    """Check that all problems of `log verify` are reported.

    Additional ones are only those that no other command checks: journals, and terms that fall."""
    assert wanted.problems <= set(told.problems)
    assert told.problem_count == len(told.problems)
    known = ("its journal", "the one before")
    others = [each for each in told.problems if each not in wanted.problems and not any(map(each.count, known))]
    assert bool(others) == bool(wanted.differing), told.problems


def archive_of(logs: Path, path: Path, *, skip_undecodable: bool = False) -> None:
    """Archive all logs of a directory without Spark."""
    source = Segments([str(logs)], skip_undecodable=skip_undecodable)
    files = files_at(str(path))
    archive_in_batches(run_one_by_one, source, files, TopicChoice(), compression="zstd", fail_on_data_loss=True)


def flip(file: Path, position: int, bit: int = 4) -> None:
    """Flip a bit of the file; a negative `position` counts from the end."""
    with file.open("r+b", buffering=0) as opened:
        at = position if position >= 0 else opened.seek(0, os.SEEK_END) + position
        [byte] = os.pread(opened.fileno(), 1, at)
        os.pwrite(opened.fileno(), bytes([byte ^ 1 << bit]), at)
