"""Finder of logs in directories, each with its data directory.

It finds the same logs as `raftlog log verify`, also logs that are in no journal, and those of the controller and of
internal topics. Called by `job` on the driver."""

import os
from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from raftlog.errors import FormatError, InvalidArgument
from raftlog.pipeline.options import TopicChoice
from raftlog.pipeline.segments.replicas import INTERNAL_PREFIX, DataDirectory, parse_log_path
from raftlog.runtime.log.replica_directory import read_group_from_rolls
from raftlog.runtime.node_identity import JOURNAL, read_identity
from raftlog.storage.directory import internal_path, list_ancestors
from raftlog.storage.disk import Disk
from raftlog.storage.log_directories import find_log_directories


class FoundLog(NamedTuple):
    """Directory of a log. `group_id`: its Raft group by its rolls; if `owner` is set, the journal's counts instead."""

    path: str
    topic: str
    partition: int
    owner: DataDirectory | None
    group_id: UUID | None = None


class FoundLogs(NamedTuple):
    """Logs by path, the data directories that contain them or were named, and problems of these directories."""

    logs: dict[str, FoundLog]
    owners: list[DataDirectory]
    problems: list[str]


def logs_in(disk: Disk, paths: Sequence[str], topics: TopicChoice | None) -> FoundLogs:
    """Return all logs in and below these directories, each once; `topics` restricts them.

    Raises `InvalidArgument` for a directory without any, and when none is of the topics; `OSError`."""
    found = FoundLogs({}, [], [])
    owners: dict[str, DataDirectory | None] = {}
    for path in paths:
        if not os.path.isdir(path):
            raise InvalidArgument(f"{path} is no directory; name data directories of brokers, or directories of logs")
        here = list(find_log_directories(os.path.abspath(path)))
        if _find_owner(disk, os.path.abspath(path), owners, found) is None and not here:
            raise InvalidArgument(f"{path} holds no log: neither it nor a directory in it has segment files")
        for each in here:
            owner = next(
                (mine for above in list_ancestors(each) if (mine := _find_owner(disk, above, owners, found))), None
            )
            found.logs[each] = FoundLog(
                each, *parse_log_path(each), owner, read_group_from_rolls(disk, each) if owner is None else None
            )
    return found if topics is None else _select_topics(found, topics, paths)


def _select_topics(found: FoundLogs, topics: TopicChoice, paths: Sequence[str]) -> FoundLogs:
    """Return the logs of these topics; a pattern does not select internal ones. Raises `InvalidArgument`."""
    names = topics.select({log.topic for log in found.logs.values()})
    if topics.pattern is not None:
        names = [name for name in names if not name.startswith(INTERNAL_PREFIX)]
    chosen = {path: log for path, log in found.logs.items() if log.topic in names}
    if not chosen:
        raise InvalidArgument(f"{', '.join(paths)}: there is no log of {topics}")
    return found._replace(logs=chosen)


def _find_owner(
    disk: Disk, directory: str, known: dict[str, DataDirectory | None], found: FoundLogs
) -> DataDirectory | None:
    """Return the data directory at this path; None for other directories, and without a readable journal."""
    if directory not in known:
        known[directory] = None
        try:
            identity = read_identity(disk, directory)
        except FormatError as error:
            found.problems.append(f"{error}; its journal cannot be read, and its replicas count as copies without one")
            return None
        if identity is not None and disk.exists(internal_path(directory, JOURNAL, str(identity.disk_uuid))):
            known[directory] = owner = DataDirectory(directory, identity.disk_uuid)
            found.owners.append(owner)
    return known[directory]
