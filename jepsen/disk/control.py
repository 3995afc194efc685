"""Shared memory through which a running shim receives the faults to inject and counts those it injected.

A small file, mapped by both sides; its layout is `struct control` in `shim/shim.h`. Faults are written only here, the
counters only by the shim, except for the number of syncs that are to fail, which the shim counts down."""

import mmap
import struct
from pathlib import Path
from typing import Final, NamedTuple

_MAGIC: Final = b"jdctrl01"
_FAULTS: Final = ("sync_delay_ns", "syncs_to_fail", "is_full", "stall_ns")
_COUNTERS: Final = (
    *("syncs", "delayed", "delayed_ns", "failed", "refused", "stalls", "stalled_ns"),
    *("written_back", "strangers", "reported_full"),
)
_AT: Final = {name: 8 + 8 * at for at, name in enumerate((*_FAULTS, *_COUNTERS))}
_BEYOND_AT: Final = 8 + 8 * len(_AT)
_BEYOND_BYTES: Final = 64
_BYTES: Final = _BEYOND_AT + _BEYOND_BYTES


class DiskCounters(NamedTuple):
    """Counts of the disk's syncs, writes and injected faults since the last launch, or some other moment."""

    syncs: int
    """Syncs of files and directories below the data directory, or of its whole file system."""
    delayed: int
    """Syncs that the shim delayed."""
    failed: int
    """Syncs that were answered with EIO."""
    refused: int
    """Writes that were answered with ENOSPC."""
    stalls: int
    """Times that the shim blocked the main thread before it waited for events."""
    stalled_ms: int
    delayed_ms: int
    reported_full: int = 0
    """Number of queries for free space answered with none; a broker that queries it first has no refused writes."""

    def since(self, before: "DiskCounters") -> "DiskCounters":
        """Return the difference to `before`; all counts if the node was launched since then."""
        more = DiskCounters(*(now - then for now, then in zip(self, before, strict=True)))
        return self if min(more) < 0 else more


class DiskControl:
    """Shared memory that controls the disk of one node; the file is created when missing."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(_MAGIC.ljust(_BYTES, b"\0"))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), _BYTES)

    def reset(self) -> None:
        """Switch all faults off and set all counters to zero."""
        self._memory[:] = _MAGIC.ljust(_BYTES, b"\0")

    def set(self, fault: str, value: int) -> None:
        assert fault in _FAULTS, fault
        struct.pack_into("q", self._memory, _AT[fault], value)

    def get(self, name: str) -> int:
        return int(struct.unpack_from("q", self._memory, _AT[name])[0])

    def counters(self) -> DiskCounters:
        return DiskCounters(
            syncs=self.get("syncs"),
            delayed=self.get("delayed"),
            failed=self.get("failed"),
            refused=self.get("refused"),
            stalls=self.get("stalls"),
            stalled_ms=self.get("stalled_ns") // 1_000_000,
            delayed_ms=self.get("delayed_ns") // 1_000_000,
            reported_full=self.get("reported_full"),
        )

    def describe_bypass(self) -> str | None:
        """Return a description of calls that bypassed the shim; None without any.

        After such calls the durable state is unknown."""
        beyond = self._memory[_BEYOND_AT : _BEYOND_AT + _BEYOND_BYTES].rstrip(b"\0").decode()
        if beyond:
            return f"the process called {beyond}"
        return f"{strangers} more processes wrote to its files" if (strangers := self.get("strangers")) else None
