"""Conditions of a link from one node to another (delay, loss, rate …), and counts of the traffic over it.

A lost segment of a stream has the effect that it has in TCP: no data until it is retransmitted, and all later data
waits. Duplication and reordering apply only to datagrams."""

from dataclasses import dataclass, fields
from typing import NamedTuple, Self

CLIENTS = 0
"""Node id that represents all clients in a link."""

Link = tuple[int, int]
"""Node ids of sender and receiver; the opposite direction is a separate link."""


class NetworkConditions(NamedTuple):
    """Network conditions of a link. Shares are from 0 to below 1."""

    delay_ms: float = 0.0
    jitter_ms: float = 0.0
    """Largest deviation of a delay from `delay_ms`; a delay is never negative."""
    loss: float = 0.0
    """Share of segments and datagrams that is lost."""
    duplicate: float = 0.0
    """Share of datagrams that is duplicated."""
    reorder: float = 0.0
    """Share of datagrams that is held back, so that later ones may overtake them."""
    rate_bytes_s: float = 0.0
    """Bandwidth in bytes per second; 0 is unlimited."""

    def check(self) -> None:
        """Raise `ValueError` if a value is out of range."""
        if any(value < 0 for value in self):
            raise ValueError(f"the values of network conditions cannot be negative: {self}")
        if any(share >= 1 for share in (self.loss, self.duplicate, self.reorder)):
            raise ValueError(f"shares must be below 1 (cut the link instead): {self}")

    def __str__(self) -> str:
        """Return the conditions in words; "normal" without any."""
        parts = []
        if self.delay_ms or self.jitter_ms:
            parts.append(f"{self.delay_ms:g} ± {self.jitter_ms:g} ms")
        for name in ("loss", "duplicate", "reorder"):
            if share := getattr(self, name):
                parts.append(f"{name} {share:.3g}")
        if self.rate_bytes_s:
            parts.append(f"{self.rate_bytes_s:,.0f} B/s")
        return ", ".join(parts) or "normal"


@dataclass(slots=True)
class TrafficCounters:
    """Counts of one kind of traffic (gossip, or all other) over one link since the start of the cluster."""

    passed_bytes: int = 0
    """Bytes of streams that passed; all counters of bytes are of streams."""
    passed_datagrams: int = 0
    dropped_bytes: int = 0
    """Bytes that cuts discarded."""
    dropped_datagrams: int = 0
    delayed_bytes: int = 0
    delayed_datagrams: int = 0
    longest_ms: int = 0
    """Longest time that bytes or a datagram were held."""
    lost_segments: int = 0
    """Number of segments that were sent again after a time-out, during which their stream stalled."""
    lost_datagrams: int = 0
    duplicated_datagrams: int = 0
    overtaken_datagrams: int = 0
    """Number of datagrams that arrived after a later one."""
    resets: int = 0
    """Number of connections that were reset."""

    def subtract(self, earlier: Self) -> "TrafficCounters":
        """Return the counts since an earlier reading.

        `longest_ms` is the value since the start, or 0 if no bytes or datagrams were held since the earlier reading."""
        more = TrafficCounters(*(getattr(self, each.name) - getattr(earlier, each.name) for each in fields(self)))
        more.longest_ms = self.longest_ms if more.delayed_bytes or more.delayed_datagrams else 0
        return more

    def __str__(self) -> str:
        """Return the counted effects in words; "nothing" without any."""
        texts = []
        for verb in ("dropped", "delayed"):
            count, datagrams = getattr(self, f"{verb}_bytes"), getattr(self, f"{verb}_datagrams")
            parts = [f"{count:,} bytes"] if count else []
            parts += [f"{datagrams:,} datagrams"] if datagrams else []
            if parts:
                texts.append(f"{' and '.join(parts)} {verb}")
        if self.longest_ms:
            texts[-1] += f" by up to {self.longest_ms:,} ms"
        for name in ("lost_segments", "lost_datagrams", "duplicated_datagrams", "overtaken_datagrams", "resets"):
            if count := getattr(self, name):
                verb, _, noun = name.rpartition("_")
                texts.append(f"{count:,} {noun}{f' {verb}' if verb else ''}")
        return ", ".join(texts) or "nothing"


class LinkCounters(NamedTuple):
    """Counts of one link, by kind of traffic."""

    rpc: TrafficCounters
    """Traffic between brokers other than gossip; for clients, HTTP."""
    gossip: TrafficCounters

    def subtract(self, earlier: "LinkCounters") -> "LinkCounters":
        """Return the counts since the `earlier` ones."""
        return LinkCounters(self.rpc.subtract(earlier.rpc), self.gossip.subtract(earlier.gossip))

    def __str__(self) -> str:
        return f"RPC: {self.rpc}; gossip: {self.gossip}"
