"""Comparison of the replicas of one Raft group at the end of a run. Called by `convergence`."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from jepsen.newest import difference, newest_records
from jepsen.simulation.timed_disk import TimedDisk
from jepsen.simulation.verdicts import PropertyBroken
from raftlog.errors import CorruptBatch
from raftlog.runtime.replica.partition_replica import PartitionReplica
from raftlog.types import Index


def scrub(group: PartitionReplica | None) -> None:
    """Read every entry in the replica's files, to detect damage; do nothing for None."""
    index = 0 if group is None else group.log.boundary.index + 1
    while group is not None and index <= group.log.written_index:
        try:
            read = group.log.segments.read_entries(Index(index), group.log.written_index, 1 << 16)
        except CorruptBatch as error:
            group.note_damage(error)
            return
        index += max(1, len(read))


def are_equal(leader: PartitionReplica, members: Sequence[PartitionReplica]) -> bool:
    """Return whether all members have, and have applied and written, exactly the entries of the leader.

    The result is valid only now: a leader that is elected later appends an entry of its own."""
    last = leader.core.last_id
    return all(
        group.core.last_id == last
        and group.applied_index == last.index
        and group.log.written_index == last.index
        and not group.log.is_cut_waiting
        for group in members
    )


def compare_files(name: object, replicas: Mapping[str, tuple[TimedDisk, PartitionReplica]]) -> None:
    """Check that segment files of one base offset have the same bytes on all replicas.

    Below the newest compaction mark only the newest records must be equal, not the files. Call it when the replicas
    `are_equal`. The keys of `replicas` are machines' names. Raises `PropertyBroken`, which names the Raft group by
    `name`."""
    files = {machine: _segments(disk, group) for machine, (disk, group) in replicas.items()}
    mark = max(group.log.mark.compacted_to for _, group in replicas.values())
    start = max((min(segments) for segments in files.values() if segments), default=0)
    if mark > 0:
        # Compaction removes records below the log start, and some replicas have not compacted yet.
        _compare_newest(name, files, max(start, *(group.log_start_offset for _, group in replicas.values())))
        start = max(start, mark)
    for one, other in pairwise(files):
        first = {base: content for base, content in files[one].items() if base >= start}
        second = {base: content for base, content in files[other].items() if base >= start}
        differing = [base for base in {**first, **second} if first.get(base) != second.get(base)]
        if differing:
            base = differing[0]
            sizes = f"{len(first.get(base, b''))} and {len(second.get(base, b''))} bytes"
            numbers = {"group": name, "replicas": f"{one} and {other}", "segment": base, "sizes": sizes}
            raise PropertyBroken("files-differ", numbers)


def _compare_newest(name: object, files: Mapping[str, dict[int, bytes]], start: int) -> None:
    """Check that all replicas have the same newest record of each key from offset `start` on.

    `files` has the contents of the segments, by base offset, of each machine."""
    newest = {
        machine: newest_records([segments[base] for base in sorted(segments)], start)
        for machine, segments in files.items()
    }
    for one, other in pairwise(newest):
        text = difference(newest[one], newest[other])
        if text is not None:
            raise PropertyBroken("newest-differ", {"group": name, "replicas": f"{one} and {other}", "what": text})


def _segments(disk: TimedDisk, group: PartitionReplica) -> dict[int, bytes]:
    """Return the contents of the replica's segment files by base offset."""
    prefix = f"{group.path}/"
    return {
        int(path.removeprefix(prefix).removesuffix(".log")): content
        for path, content in disk.snapshot().items()
        if path.startswith(prefix) and path.endswith(".log")
    }
