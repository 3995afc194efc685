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
_CALL_AT: Final = 8 + 8 * len(_AT)
_CALL_BYTES: Final = 64
_BYTES: Final = _CALL_AT + _CALL_BYTES


class DiskCounters(NamedTuple):
    """Counts of the disk's syncs, writes and injected faults since the node's last launch, or since another reading."""

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
        """Return the counts since `before` was read; all counts since the last launch if that was later."""
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
        """Set a fault of `struct control`, such as `sync_delay_ns`, to a value; 0 ends the fault."""
        assert fault in _FAULTS, fault
        struct.pack_into("q", self._memory, _AT[fault], value)

    def get(self, name: str) -> int:
        """Return the present value of a fault or counter in the shared memory."""
        return int(struct.unpack_from("q", self._memory, _AT[name])[0])

    def counters(self) -> DiskCounters:
        """Return all counters since the last `reset`; times in milliseconds."""
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
        """Return a description of system calls or processes that bypassed the shim; None without any.

        After a bypass the durable state is unknown."""
        unsupported_call = self._memory[_CALL_AT : _CALL_AT + _CALL_BYTES].rstrip(b"\0").decode()
        if unsupported_call:
            return f"the process called {unsupported_call}"
        return f"{strangers} more processes wrote to its files" if (strangers := self.get("strangers")) else None
