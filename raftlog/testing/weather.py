"""What a way between two nodes does to what is sent over it, and what was seen of that.

On a stream a lost segment is what it is to TCP: silence until it was sent again, and everything behind it waits.
Duplicates and the wrong order are for datagrams alone, which know neither.
"""

from dataclasses import dataclass, fields
from typing import NamedTuple, Self

CLIENTS = 0
"""Stands for all clients where a way is from one node to another."""


class Weather(NamedTuple):
    """Of one way; shares are from 0 up to, not including, 1. The way back has its own."""

    delay_ms: float = 0.0
    jitter_ms: float = 0.0
    """Each delay is `delay_ms` give or take up to so much, and never less than nothing."""
    loss: float = 0.0
    """The share of segments and datagrams that is lost."""
    duplicate: float = 0.0
    """The share of datagrams that comes twice."""
    reorder: float = 0.0
    """The share of datagrams that is held back so that later ones may overtake it."""
    rate_bytes_s: float = 0.0
    """0 is as fast as it goes."""

    def check(self) -> None:
        """Raises `ValueError`."""
        if any(value < 0 for value in self):
            raise ValueError(f"nothing of the weather is negative: {self}")
        if any(share >= 1 for share in (self.loss, self.duplicate, self.reorder)):
            raise ValueError(f"shares are less than 1 (cut the way instead): {self}")

    def __str__(self) -> str:
        said = []
        if self.delay_ms or self.jitter_ms:
            said.append(f"{self.delay_ms:g} ± {self.jitter_ms:g} ms")
        for name in ("loss", "duplicate", "reorder"):
            if share := getattr(self, name):
                said.append(f"{name} {share:.3g}")
        if self.rate_bytes_s:
            said.append(f"{self.rate_bytes_s:,.0f} B/s")
        return ", ".join(said) or "fair"


@dataclass(slots=True)
class LaneSeen:
    """What became of what was sent over one way since the cluster began, of gossip or of everything else."""

    passed_bytes: int = 0
    """Of streams, as are all bytes here."""
    passed_datagrams: int = 0
    swallowed_bytes: int = 0
    """By cuts."""
    swallowed_datagrams: int = 0
    delayed_bytes: int = 0
    delayed_datagrams: int = 0
    longest_ms: int = 0
    """The longest that anything was held."""
    lost_segments: int = 0
    """Each was sent again after a time-out, in which its stream stood still."""
    lost_datagrams: int = 0
    duplicated_datagrams: int = 0
    overtaken_datagrams: int = 0
    """A later one was there first."""
    resets: int = 0
    """Connections that were reset."""

    def since(self, earlier: Self) -> "LaneSeen":
        """What came after that; the longest is that of all time, unless nothing was held since."""
        more = LaneSeen(*(getattr(self, each.name) - getattr(earlier, each.name) for each in fields(self)))
        more.longest_ms = self.longest_ms if more.delayed_bytes or more.delayed_datagrams else 0
        return more

    def __str__(self) -> str:
        said = []
        for name, verb in (("swallowed", "swallowed"), ("delayed", "delayed")):
            count, datagrams = getattr(self, f"{name}_bytes"), getattr(self, f"{name}_datagrams")
            parts = [f"{count:,} bytes"] if count else []
            parts += [f"{datagrams:,} datagrams"] if datagrams else []
            if parts:
                said.append(f"{' and '.join(parts)} {verb}")
        if self.longest_ms:
            said[-1] += f" by up to {self.longest_ms:,} ms"
        for name in ("lost_segments", "lost_datagrams", "duplicated_datagrams", "overtaken_datagrams", "resets"):
            if count := getattr(self, name):
                verb, _, noun = name.rpartition("_")
                said.append(f"{count:,} {noun}{f' {verb}' if verb else ''}")
        return ", ".join(said) or "nothing"


class WaySeen(NamedTuple):
    """The same of one way, by what went over it."""

    rpc: LaneSeen
    """Between brokers everything but gossip; of clients HTTP."""
    gossip: LaneSeen

    def since(self, earlier: "WaySeen") -> "WaySeen":
        return WaySeen(self.rpc.since(earlier.rpc), self.gossip.since(earlier.gossip))

    def __str__(self) -> str:
        return f"RPC: {self.rpc}; gossip: {self.gossip}"
