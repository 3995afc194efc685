"""`raftlog log verify --compare`: comparison of logs that are replicas of the same Raft group.

If a log is in a data directory, the journal of this directory defines which entries count. A log outside of a data
directory is compared by the group id in its rolls. No file is changed.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from raftlog.cli.outcome import CommandFailed
from raftlog.cli.tables import Columns
from raftlog.runtime.log.offline import Comparison, OfflineReplica, compare_replicas, list_offline_replicas
from raftlog.runtime.log.replica_directory import read_group_from_rolls
from raftlog.runtime.node_identity import read_identity
from raftlog.storage.directory import list_ancestors
from raftlog.storage.disk import Disk


def compare_logs(disk: Disk, logs: Sequence[str]) -> list[Comparison]:
    """Compare all replicas of the same group among these directories. Raises `CommandFailed` when there are none."""
    groups: dict[bytes, list[OfflineReplica]] = {}
    for replica in _find_replicas(disk, logs):
        groups.setdefault(replica.group_id.bytes, []).append(replica)
    compared = [compare_replicas(disk, replicas) for replicas in groups.values() if len(replicas) > 1]
    if not compared:
        raise CommandFailed(
            "no two of these logs are replicas of the same partition; give the data directories of several brokers"
        )
    return compared


def _find_replicas(disk: Disk, logs: Sequence[str]) -> Iterator[OfflineReplica]:
    """Yield the replicas of log directories, with their partition if the data directory around them names it."""
    known: dict[str, dict[str, OfflineReplica]] = {}
    for path in logs:
        data_dir = next((above for above in list_ancestors(path) if read_identity(disk, above) is not None), None)
        if data_dir is None:
            group_id = read_group_from_rolls(disk, path)
            if group_id is not None:
                yield OfflineReplica(path, group_id, None, None)
            continue
        if data_dir not in known:
            identity = read_identity(disk, data_dir)
            assert identity is not None, f"{data_dir} had an identity a moment ago"
            known[data_dir] = {each.path: each for each in list_offline_replicas(disk, data_dir, identity.disk_uuid)}
        if path in known[data_dir]:
            yield known[data_dir][path]


def comparison_json(comparison: Comparison) -> dict[str, Any]:
    """Return the comparison as an object for JSON."""
    return {
        "group_id": str(comparison.group_id),
        "paths": list(comparison.paths),
        "first_index": comparison.first,
        "last_index": comparison.last,
        "end_offset": comparison.end_offset,
        "identical": comparison.difference is None and not comparison.behind,
        "difference": comparison.difference,
        "not_compared": list(comparison.behind),
    }


def _describe_state(comparison: Comparison) -> str:
    """Return the first difference, or which replicas are identical."""
    if comparison.difference is not None:
        return comparison.difference
    if not comparison.behind:
        return "identical"
    others = len(comparison.paths) - len(comparison.behind)
    state = "not compared" if others < 2 else f"{others} are identical"
    return f"{state}; behind the others' compaction: {', '.join(comparison.behind)}"


COMPARISON: Columns[Comparison] = {
    "compared": lambda each: "/".join(each.paths[0].rsplit("/", 2)[1:]),
    "replicas": lambda each: len(each.paths),
    "entries": lambda each: f"{each.first} … {each.last}" if each.last >= each.first else "none",
    "up to offset": lambda each: f"{each.end_offset:,}",
    "state": _describe_state,
}
