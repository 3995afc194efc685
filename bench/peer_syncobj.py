"""Process of a pysyncobj cluster: a replicated list whose appends are counted, with the library's journal enabled.

`python -m bench.peer_syncobj OWN JOURNAL BATCHED OTHER…` reads commands as lines of JSON and answers likewise:

    ["leads", {}]                           whether this process leads
    ["load", {seconds, in_flight}]          result of the load
    ["count", {}]                           the length of the list
"""

import json
import sys
import threading
import time
from typing import Any

from pysyncobj import FAIL_REASON, SyncObj, SyncObjConf, replicated

from bench.samples import VALUE_BYTES
from raftlog.loadgen.tally import Latencies

_ANSWER_S_MAX = 20.0
"""Seconds to wait for the last answers; the library loses some when its leader changes, and they count as failed."""


class ReplicatedList(SyncObj):  # type: ignore[misc]  # the library has no annotations
    """List in PySyncObj to which values are appended, as to a log."""

    def __init__(self, own: str, others: list[str], journal: str, *, is_batched: bool) -> None:
        # No compaction in a run of seconds: its pauses are not the subject.
        config = SyncObjConf(
            journalFile=journal, appendEntriesUseBatch=is_batched, logCompactionMinEntries=1 << 30, dnsCacheTime=3600.0
        )
        self.count = 0
        super().__init__(own, others, config)

    @replicated  # type: ignore[untyped-decorator]
    def append(self, value: bytes) -> int:
        self.count += 1
        return self.count


class Load:
    """Closed-loop load in the leader's process, because the library has no clients."""

    def __init__(self, target: ReplicatedList) -> None:
        self._target = target
        self._latencies = Latencies()
        self._failed = 0
        self._sent = 0
        self._under_way = 0
        self._until = 0.0
        self._done = threading.Event()
        self._lock = threading.Lock()

    def run(self, seconds: float, in_flight: int) -> dict[str, Any]:
        begin = time.perf_counter()
        self._until = begin + seconds
        with self._lock:
            for _ in range(in_flight):
                self._send()
        self._done.wait(seconds + _ANSWER_S_MAX)
        took = time.perf_counter() - begin
        return {
            "succeeded": len(self._latencies),
            "failed": self._failed + self._under_way,
            "per_s": len(self._latencies) / took,
            **self._latencies.as_json(),
        }

    def _send(self) -> None:
        since = time.perf_counter()
        self._sent += 1
        self._under_way += 1
        value = f"{self._sent:0{VALUE_BYTES}d}".encode()
        self._target.append(value, callback=lambda _, why: self._on_append(since, why))

    def _on_append(self, since: float, why: int) -> None:
        now = time.perf_counter()
        with self._lock:
            self._under_way -= 1
            if why == FAIL_REASON.SUCCESS:
                self._latencies.add(now - since)
            else:
                self._failed += 1
            if now < self._until:
                self._send()
            elif not self._under_way:
                self._done.set()


def main() -> None:
    own, journal, batched, *others = sys.argv[1:]
    target = ReplicatedList(own, others, journal, is_batched=batched == "batched")
    for line in sys.stdin:
        name, arguments = json.loads(line)
        answer: Any
        match name:
            case "leads":
                answer = target.isReady() and str(target._getLeader()) == own
            case "load":
                answer = Load(target).run(**arguments)
            case _:
                answer = target.count
        print(json.dumps(answer), flush=True)
    target.destroy()


if __name__ == "__main__":
    main()
