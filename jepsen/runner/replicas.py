"""Checks of the replicas' files after all nodes have stopped: sound, and with the same bytes on every node.

    the later of two log starts ≤ compared < end, the highest end that clients received

Segments are compared by name, batch by batch; of two the shorter may only be the beginning of the longer. A replica may
lack its oldest segments, which it may delete; the others are compared all the same. Of compacted partitions the newest
records of all keys are compared. They are read here by the documented format, not by the broker's storage code.
`raftlog log verify --compare` checks every log of a node with its checksums and indexes, the controller's and those of
groups as well, and compares them with those of the others.
"""

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

import orjson

from jepsen.checkers import compare_streams
from jepsen.newest import difference, newest_records
from jepsen.runner.finding import Finding
from raftlog.errors import InvalidArgument, InvalidBatch
from raftlog.records import split_batches
from raftlog.types import TopicPartition

_VERIFY_S_MAX: Final = 120.0


def check_replicas(
    data_dirs: Mapping[int, Path], ends: Mapping[TopicPartition, int], *, are_compacted: bool = False
) -> list[Finding]:
    """Return the findings in the replicas of these partitions and in all other logs. `ends` is exclusive."""
    return compare_replicas(data_dirs, ends, are_compacted=are_compacted) + _verify_logs(list(data_dirs.values()))


def compare_replicas(
    data_dirs: Mapping[int, Path], ends: Mapping[TopicPartition, int], *, are_compacted: bool = False
) -> list[Finding]:
    """Return findings for missing replicas, and for replicas that differ below the ends."""
    findings: list[Finding] = []
    for place, end in ends.items():
        present = {
            node: directory for node, path in data_dirs.items() if (directory := _directory(path, place)).is_dir()
        }
        if len(present) < min(3, len(data_dirs)):
            findings.append(Finding("missing-replica", f"{place} is on nodes {sorted(present)} alone"))
        compare = _compare_newest if are_compacted else _compare
        findings += compare(place, present, end)
        findings += _check_copies(place, present, end)
    return findings


def _directory(data_dir: Path, place: TopicPartition) -> Path:
    """Return the directory of a partition in a broker's data directory."""
    return data_dir / place.topic / str(place.partition)


def _segments(directory: Path) -> dict[int, Path]:
    """Return the segment files of a log, by base offset."""
    return {int(path.stem): path for path in sorted(directory.glob("*.log"))}


def _compare(place: TopicPartition, directories: Mapping[int, Path], end: int) -> list[Finding]:
    """Compare a partition's segments on all nodes, entry by entry up to offset `end`; return the findings.

    A node's log may begin later and end earlier than others, but must not lack a segment in between."""
    segments = {node: _segments(directory) for node, directory in directories.items()}
    if not all(segments.values()):
        empty = [node for node, found in segments.items() if not found]
        return [Finding("replicas-differ", f"{place} has no segment on nodes {empty}")]
    findings = []
    for base in sorted({base for found in segments.values() for base in found if base < end}):
        without = [node for node, found in segments.items() if base not in found and min(found) < base < max(found)]
        if without:
            findings.append(Finding("replicas-differ", f"{place} has no segment {base} on nodes {without}"))
        streams = {f"node {node}": _batches(found[base], end) for node, found in segments.items() if base in found}
        try:
            difference = compare_streams(streams)
        except (InvalidBatch, InvalidArgument) as error:
            findings.append(Finding("damaged-log", f"{place}, segment {base}: {error}"))
        else:
            if difference is not None:
                findings.append(Finding(difference.kind, f"{place}, segment {base}: {difference.what}"))
    return findings


def _compare_newest(place: TopicPartition, directories: Mapping[int, Path], end: int) -> list[Finding]:
    """Return findings for differences between the newest records of complete replicas.

    Incomplete replicas are omitted: a complete one may be compacted beyond their ends."""
    whole = {node: directory for node, directory in directories.items() if _next_offset(directory) >= end}
    segments = {node: _segments(directory) for node, directory in whole.items()}
    start = max((min(found) for found in segments.values() if found), default=0)
    newest = {}
    for node, found in segments.items():
        try:
            newest[node] = newest_records((path.read_bytes() for path in found.values()), start, end)
        except InvalidBatch as error:
            return [Finding("damaged-log", f"{place} on node {node}: {error}")]
    findings = []
    for one, other in pairwise(newest):
        description = difference(newest[one], newest[other])
        if description is not None:
            findings.append(Finding("replicas-differ", f"{place} on nodes {one} and {other}: {description}"))
    return findings


def _batches(path: Path, end: int) -> Iterator[tuple[int, memoryview]]:
    """Yield position and bytes of the batches below the end."""
    position = 0
    for header, batch in split_batches(path.read_bytes()):
        if header.base_offset >= end:
            return
        yield position, memoryview(batch)
        position += len(batch)


def _check_copies(place: TopicPartition, directories: Mapping[int, Path], end: int) -> list[Finding]:
    """Return a finding unless a majority of the replicas has all acknowledged records."""
    reached = {node: _next_offset(directory) for node, directory in directories.items()}
    if 2 * sum(offset >= end for offset in reached.values()) > len(directories):
        return []
    return [Finding("too-few-copies", f"{place} ended at {end} for clients, and its replicas end at {reached}")]


def _next_offset(directory: Path) -> int:
    """Return the offset after the last valid batch of the newest segment; 0 without segments."""
    segments = _segments(directory)
    if not segments:
        return 0
    reached = max(segments)
    try:
        for header, _ in split_batches(segments[reached].read_bytes()):
            reached = header.next_offset
    except InvalidBatch:
        return reached  # no valid batch follows; the comparison reports it
    return reached


def _verify_logs(data_dirs: Sequence[Path]) -> list[Finding]:
    """Run `raftlog log verify --compare` on data directories; return its problems as findings."""
    command = [sys.executable, "-m", "raftlog.cli", "log", "verify", "--compare", "--json", *map(str, data_dirs)]
    done = subprocess.run(command, capture_output=True, timeout=_VERIFY_S_MAX, check=False)  # noqa: S603 - our own
    if done.returncode == 0:
        return []
    stderr = done.stderr.decode(errors="replace").strip()
    try:
        answer = orjson.loads(done.stdout)
        problems = [f"{log['path']}: {problem}" for log in answer["logs"] for problem in log["problems"]]
        differences = [f"{each['paths']}: {each['difference']}" for each in answer["comparisons"] if each["difference"]]
    except (orjson.JSONDecodeError, KeyError):
        return [Finding("damaged-log", f"raftlog log verify ended with {done.returncode}: {stderr}")]
    found = [Finding("damaged-log", f"raftlog log verify: {problem}") for problem in problems]
    found += [Finding("replicas-differ", f"raftlog log verify: {difference}") for difference in differences]
    return found or [Finding("damaged-log", f"raftlog log verify ended with {done.returncode}: {stderr}")]
