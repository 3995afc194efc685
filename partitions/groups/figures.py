"""Figures of the coordinators here for metrics: computed in slices on request, and not stored.

A group's lag is taken from local replicas, so it costs no request; it may be behind by the records that a follower
has not received yet, and is unknown for partitions without a local replica. Their committed offsets are reported all
the same, and Prometheus subtracts them from high watermarks that other brokers report. Called by the broker's
measuring."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Final, NamedTuple

from raftlog.partitions.groups.coordinator import GroupCoordinator
from raftlog.partitions.groups.records import OffsetRecord
from raftlog.partitions.groups.results import Place
from raftlog.partitions.groups.states import ConsumerGroupState
from raftlog.types import Offset

_SLICE: Final = 64
"""Groups examined in one turn of the loop."""


class GroupLag(NamedTuple):
    """Lag of a group in a partition: the records after its committed offset; None without a local replica."""

    group: str
    topic: str
    partition: int
    records: int | None
    committed: int
    """Committed offset, at which the group continues."""


class GroupFigures(NamedTuple):
    """Values for the metrics of the groups that this broker coordinates."""

    by_state: Mapping[str, int]
    """Number of groups in each state, by Kafka's names."""
    members: int
    lags: list[GroupLag]
    """Lags in the first `lags_max` partitions that groups committed in, ordered by coordinator and group name."""
    lags_left_out: int
    """Number of partitions beyond `lags_max`."""


EndOf = Callable[[Place], tuple[str, Offset | None] | None]
"""Lookup of the topic's name and the high watermark known here; None for a deleted topic."""


async def group_figures(coordinators: Iterable[GroupCoordinator], end_of: EndOf, lags_max: int) -> GroupFigures:
    """Return the metric values of all groups; other tasks run in between."""
    by_state = Counter({state.value: 0 for state in ConsumerGroupState if state is not ConsumerGroupState.DEAD})
    members = 0
    lags: list[GroupLag] = []
    left_out = 0
    for coordinator in coordinators:
        names = coordinator.group_names()
        for number, group in enumerate(names, 1):
            found = coordinator.machine.group(group)
            by_state[(ConsumerGroupState.EMPTY if found is None else found.state).value] += 1
            members += 0 if found is None else len(found.members)
            offsets = coordinator.folded.offsets.get(group, {})
            shown = list(islice(offsets.items(), lags_max - len(lags)))
            lags += _read_lags(group, shown, end_of)
            left_out += len(offsets) - len(shown)
            if number % _SLICE == 0:
                await asyncio.sleep(0)
    return GroupFigures(by_state, members, lags, left_out)


def _read_lags(group: str, offsets: Iterable[tuple[Place, OffsetRecord]], end_of: EndOf) -> Iterator[GroupLag]:
    """Yield the lag of a group in each partition whose topic exists."""
    for place, committed in offsets:
        known = end_of(place)
        if known is not None:
            topic, end = known
            lag = None if end is None else max(0, end - committed.offset)
            yield GroupLag(group, topic, place[1], lag, committed.offset)
