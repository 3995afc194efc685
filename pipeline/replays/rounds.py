"""Rounds and steps of the replay of a topic, and the record of its progress.

    round      rows that the archive has after one of its commits, and did not have after the commit of the last round
    step       part of a round: at most `step_offsets` offsets of each partition; an epoch of the sink, counted over all
               rounds

A round begins once the steps of the one before are done, and its rows do not change when the archive grows meanwhile.
So a repeated replay continues at its last step, and then with new rows. Its progress is recorded in the target cluster,
as an offset commit of the group `raftlog-replay.{write id}` for partition 0 of the target, in addition to the sink's
record. So the archive is only read, and the deletion of a topic deletes the record with the rows. The committed offset
is 2⁶² + 1 + the step that begins next: it rises with each step, and is so high that monitoring shows no lag."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from raftlog.client import BrokerClient, CommittedOffset
from raftlog.errors import InvalidArgument, VersionConflict
from raftlog.pipeline.archives.manifest import Coverage
from raftlog.pipeline.archives.state import ArchiveState
from raftlog.pipeline.errors import ArchiveDamaged, WriteForgotten
from raftlog.pipeline.sink.marks import make_commit, recorded_fields
from raftlog.types import TopicPartition

STEP_OFFSETS: Final = 1_000_000
GROUP_PREFIX: Final = "raftlog-replay."
_BASE: Final = (1 << 62) + 1
NO_STEP: Final = -1
_NOTHING: Final = -1


class Round(NamedTuple):
    """Round of a replay: the rows that commits after `after` up to `upto` added to the archive.

    `after < upto`. `epoch` is the epoch of the first step. A step has at most `step_offsets` offsets of each
    partition."""

    archive_id: str
    upto: int
    step_offsets: int
    after: int = _NOTHING
    epoch: int = 0

    @property
    def is_first(self) -> bool:
        return self.after == _NOTHING

    def next(self, last_commit: int, steps: int) -> "Round":
        """Return the next round, up to commit `last_commit`, after the `steps` of this one."""
        return Round(self.archive_id, last_commit, self.step_offsets, self.upto, self.epoch + steps)


class Range(NamedTuple):
    """Offsets of one partition, `start ≤ offset < end`."""

    partition: int
    start: int
    end: int


def newly_covered_ranges(
    topic: str, covered: Mapping[TopicPartition, Coverage], before: Mapping[TopicPartition, Coverage] | None
) -> list[Range]:
    """Return the ranges of offsets of a topic that are in `covered` and not in `before` (None: nothing was covered)."""
    ranges = []
    for place, coverage in sorted(covered.items()):
        if place.topic != topic:
            continue
        known = None if before is None else before.get(place)
        start = coverage.start if known is None else known.end
        if start < coverage.end:
            ranges.append(Range(place.partition, start, coverage.end))
    return ranges


def divide_into_steps(ranges: list[Range], size: int) -> list[list[Range]]:
    """Divide the ranges into steps of at most `size` offsets of each partition."""
    count = max((-(-(each.end - each.start) // size) for each in ranges), default=0)
    steps: list[list[Range]] = [[] for _ in range(count)]
    for partition, start, end in ranges:
        for number, first in enumerate(range(start, end, size)):
            steps[number].append(Range(partition, first, min(end, first + size)))
    return steps


class ReplayProgress(NamedTuple):
    """Recorded progress of a replay: its round, and the step (`epoch`) before which it was recorded."""

    round: Round
    epoch: int


def current_round(state: ArchiveState, reached: ReplayProgress | None, done: int, step_offsets: int) -> Round:
    """Return the round to continue with; `done` is the last complete step in the sink's record, or -1.

    Raises `WriteForgotten` if `done` is before the progress in the replay's record (`reached`), and `ArchiveDamaged` if
    the archive is an older copy."""
    if reached is None and done == NO_STEP:
        return Round(state.archive_id, state.number, step_offsets)
    if reached is None or done < reached.epoch - 1:
        raise WriteForgotten(
            "the progress of this replay is incomplete (committed offsets of its groups expired, or were deleted): "
            "written rows cannot be distinguished from missing ones. Replay to a new topic"
        )
    if reached.round.upto > state.number:
        raise ArchiveDamaged(
            f"this archive is an older copy of the one that the replay began with: it has {state.number} commits of "
            f"{reached.round.upto}"
        )
    return reached.round


class ReplayRecord:
    """Record of a topic's progress in a replay, stored as a committed offset.

    `what` is a digest of the options, which must stay the same in a named replay."""

    def __init__(self, write_id: str, target: str, what: str) -> None:
        """Record the progress of the write `write_id`; `what` is the digest of its options."""
        self._what = what
        self._group, self._place = GROUP_PREFIX + write_id, TopicPartition(target, 0)

    async def read(self, client: BrokerClient) -> ReplayProgress | None:
        """Return the recorded progress, or None. Raises `InvalidArgument` if the name belongs to another replay."""
        found = (await client.groups.committed(self._group)).get(self._place)
        if found is None:
            return None
        fields = self._fields(found)
        if fields["what"] != self._what:
            raise InvalidArgument(
                "an earlier replay of this name had other options for rows or partitions: "
                "give the same ones, or another name"
            )
        return ReplayProgress(Round(*fields["round"]), found.offset - _BASE)

    async def write(self, client: BrokerClient, now: Round, epoch: int) -> None:
        """Record a step before it begins.

        If several replays of the same name run, the first record counts. Raises `VersionConflict` if another replay
        recorded a different round, because rows of both would be written."""
        record = make_commit(_BASE + epoch, {"what": self._what, "round": now})
        await client.groups.commit(self._group, {self._place: record})
        recorded = await self.read(client)
        if recorded is not None and recorded.round.epoch <= epoch and recorded.round != now:
            raise VersionConflict(
                "this replay runs somewhere else as well, with the archive as it was after commit "
                f"{recorded.round.upto}; start it again when that has ended"
            )

    def _fields(self, found: CommittedOffset) -> dict[str, Any]:
        """Return the fields of a recorded step. Raises `WriteForgotten` if another client wrote the commit."""
        fields = recorded_fields(found)
        if fields.keys() != {"what", "round"} or found.offset < _BASE:
            raise WriteForgotten(
                f"the commits of the group {self._group} are not those of a replay: another client commits under its "
                "name, or reset it. Replay under another name"
            )
        return fields
