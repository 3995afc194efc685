"""Summary of a `produce` run, as text and as JSON."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import click
import orjson

from raftlog.cli.produce.sender import SendLane

PARTITIONS_SHOWN = 4


class Summary:
    """Summary of a run of `raftlog produce`.

    Its counts come from the counters of each partition, so they are correct at any moment, also after a failure."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._lanes: Mapping[int, SendLane] = {}
        self._stored_before: Sequence[int] = ()
        self._started = self._ended = time.monotonic()
        self.begun = False

    def begin(self, lanes: Mapping[int, SendLane], stored_before: Sequence[int] | None) -> None:
        """Start the clock; `stored_before`: number of records that an earlier run stored, by partition, or None."""
        self._lanes, self._stored_before, self.begun = lanes, stored_before or (), True
        self._started = self._ended = time.monotonic()

    def end(self) -> None:
        self._ended = time.monotonic()

    @property
    def confirmed(self) -> int:
        """Records that this run sent and the broker acknowledged."""
        return sum(lane.confirmed for lane in self._lanes.values()) - sum(self._stored_before)

    @property
    def unconfirmed(self) -> int:
        """Records that were sent and may be stored: their outcome is unknown."""
        return sum(lane.sent - lane.confirmed - lane.refused for lane in self._lanes.values())

    @property
    def refused(self) -> int:
        """Records that were certainly not stored."""
        return sum(lane.refused for lane in self._lanes.values())

    def show(self, as_json: bool) -> None:
        """Print the line on stderr, and the JSON on stdout if requested."""
        click.echo(self._format_line(), err=True)
        if as_json:
            click.echo(orjson.dumps(self.as_json("done", None)))

    def confirmed_text(self) -> str:
        """Return a sentence with the numbers of confirmed, unconfirmed and refused records."""
        unsure = f", {self.unconfirmed:,} more may be stored" if self.unconfirmed else ""
        refused = f", {self.refused:,} are not stored" if self.refused else ""
        places = self._format_places()
        return f"{self.confirmed:,} records are confirmed{f' ({places})' if places else ''}{unsure}{refused}."

    def as_json(self, outcome: str, error: str | None) -> dict[str, Any]:
        """Return the summary as a JSON object."""
        seconds = self._ended - self._started
        rows = [
            {"partition": lane.partition, "base_offset": first, "next_offset": end, "records": end - first}
            for lane, first, end in self._find_ranges()
        ]
        return {
            "topic": self._topic,
            "outcome": outcome,
            "error": error,
            "records": self.confirmed,
            "unconfirmed": self.unconfirmed,
            "refused": self.refused,
            "already_stored": sum(self._stored_before),
            "bytes": self._count_bytes(),
            "seconds": round(seconds, 6),
            "records_per_second": round(self.confirmed / seconds) if seconds > 0 else None,
            "partitions": rows,
        }

    def _format_line(self) -> str:
        """Return the summary as one line."""
        seconds = max(self._ended - self._started, 1e-9)
        already = f", {sum(self._stored_before):,} were there already" if sum(self._stored_before) else ""
        places = self._format_places()
        return (
            f"{self.confirmed:,} records, {self._count_bytes():,} bytes to {self._topic} in {seconds:.2f} s, "
            f"{self.confirmed / seconds:,.0f} records/s{already}{f'; {places}' if places else ''}"
        )

    def _format_places(self) -> str:
        """Return the offsets of the stored records by partition; the number of partitions if there are many."""
        ranges = self._find_ranges()
        if len(ranges) > PARTITIONS_SHOWN:
            return f"in {len(ranges)} partitions"
        return ", ".join(f"partition {lane.partition}: offsets {first} to {end - 1}" for lane, first, end in ranges)

    def _find_ranges(self) -> list[tuple[SendLane, int, int]]:
        """Return lane, first offset and end offset of this run's records in each partition with known offsets."""
        ranges = []
        for lane in sorted(self._lanes.values(), key=lambda lane: lane.partition):
            already = self._stored_before[lane.partition] if self._stored_before else 0
            if lane.base is not None and lane.base >= 0 and lane.confirmed > already:
                ranges.append((lane, lane.base + already, lane.base + lane.confirmed))
        return ranges

    def _count_bytes(self) -> int:
        """Return the number of bytes that were confirmed as stored."""
        return sum(lane.confirmed_bytes for lane in self._lanes.values())
