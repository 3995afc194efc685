"""Writer of a history: entries in the format of the checkers, with further fields for readers and the harness.

Each entry is written at once, in one system call. So after a kill at most the last line of the file is incomplete.
Further members of an entry (`node`, `acks`, `leader_epoch` …) are ignored by `jepsen.checkers`."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import orjson

from jepsen.checkers.history import Kind, Op, Payload, Recorder
from jepsen.checkers.json_lines import encode
from raftlog.errors import RaftlogError

MERGED_CLOCK: Final = time.monotonic_ns
"""One clock for all processes of a machine, so that their histories can be merged."""


def clock_since(epoch_ns: int) -> Callable[[], int]:
    """Return a function that returns the nanoseconds since the start of the test, the same in every process."""
    return lambda: MERGED_CLOCK() - epoch_ns


class HistoryWriter:
    """Writer of one process's part of the history."""

    def __init__(self, path: Path, clock_ns: Callable[[], int]) -> None:
        """Append to the history file `path`; `clock_ns` returns the time of an entry."""
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115 - closed by `close`
        self._recorder = Recorder(clock_ns, self._write)
        self._more: dict[str, Any] = {}
        self.counts: dict[str, int] = {"ok": 0, "fail": 0, "info": 0}
        """Completed sends and transactions by outcome."""
        self.polled = 0
        """Records that polls returned."""

    def close(self) -> None:
        self._file.close()

    def invoke(self, process: int, kind: Kind, payload: Payload = None, **more: Any) -> Op:
        """Record that `process` begins an operation; return the entry. `more` are further members of its JSON."""
        self._more = more
        return self._recorder.invoke(process, kind, payload)

    def ok(self, invocation: Op, payload: Payload = None, **more: Any) -> Op:
        """Record that an operation succeeded; return the entry."""
        self._more = more
        return self._count(self._recorder.ok(invocation, payload))

    def fail(self, invocation: Op, error: str, payload: Payload = None, **more: Any) -> Op:
        """Record that an operation definitely failed; return the entry."""
        self._more = more
        return self._count(self._recorder.fail(invocation, error, payload))

    def info(self, invocation: Op, why: str, payload: Payload = None, **more: Any) -> Op:
        """Record that the outcome of an operation is unknown; return the entry."""
        self._more = more
        return self._count(self._recorder.info(invocation, why, payload))

    def record_refusal(self, invocation: Op, error: RaftlogError, **more: Any) -> Op:
        """Record the completion of a failed operation: `fail`, or `info` if its outcome is unknown."""
        complete = self.fail if error.outcome == "failed" else self.info
        return complete(invocation, f"{type(error).__name__}: {error}", **more)

    def crash(self, process: int) -> None:
        """Record that the client of `process` has crashed; its open operation has no end."""
        self._more = {}
        self._recorder.crash(process)

    def nemesis(self, description: str, **more: Any) -> None:
        """Record an event of the nemesis."""
        self._more = more
        self._recorder.nemesis(description)

    def _count(self, op: Op) -> Op:
        """Count a completed send or transaction; return the entry."""
        if op.kind in ("send", "txn"):
            self.counts[op.type] += 1
        return op

    def _write(self, op: Op) -> None:
        """Append an entry, with the further members of its JSON."""
        line = encode(op)
        if self._more:
            line = line[:-2] + b"," + orjson.dumps(self._more)[1:] + b"\n"
        self._file.write(line)
