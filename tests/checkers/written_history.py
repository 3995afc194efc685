"""A history written by hand: the caller adds one operation per line."""

from jepsen.checkers import (
    Assign,
    Fetched,
    GroupOffsets,
    ListOffsets,
    OffsetRange,
    Op,
    Poll,
    Recorder,
    Send,
    check_with,
)
from jepsen.checkers.checker import Checker, Findings
from jepsen.checkers.history import Payload
from raftlog.types import Offset, TopicPartition

T0 = TopicPartition("t", 0)
SECOND = 1_000_000_000


class WrittenHistory:
    """History built one operation at a time; one second passes between entries."""

    def __init__(self) -> None:
        self.ops: list[Op] = []
        self.recorder = Recorder(lambda: len(self.ops) * SECOND, self.ops.append)

    def begin_send(self, process: int, *values: int) -> Op:
        return self.recorder.invoke(process, "send", Send(T0, values))

    def end_send(self, invocation: Op, *offsets: int) -> Op:
        assert isinstance(invocation.payload, Send)
        return self.recorder.ok(invocation, invocation.payload._replace(offsets=tuple(map(Offset, offsets))))

    def send(self, process: int, value: int, offset: int) -> Op:
        return self.end_send(self.begin_send(process, value), offset)

    def poll(self, process: int, *records: tuple[int, int]) -> Op:
        """Poll records given as offsets with their values."""
        offsets = tuple(Offset(offset) for offset, _ in records)
        fetched = (Fetched(T0, offsets, tuple(value for _, value in records)),) if records else ()
        return self.recorder.ok(self.recorder.invoke(process, "poll", Poll()), Poll(fetched))

    def complete(self, process: int, kind: str, payload: Payload, result: Payload = None) -> Op:
        return self.recorder.ok(self.recorder.invoke(process, kind, payload), result)

    def assign(self, process: int, offset: int | None) -> Op:
        return self.complete(process, "assign", Assign(((T0, None if offset is None else Offset(offset)),)))

    def list_offsets(self, process: int, start: int, end: int, *, linearizable: bool = False) -> Op:
        asked = ListOffsets((), linearizable)
        return self.complete(
            process, "list", asked, ListOffsets((OffsetRange(T0, Offset(start), Offset(end)),), linearizable)
        )

    def commit(self, process: int, offset: int) -> Op:
        return self.complete(process, "commit", GroupOffsets("g", ((T0, Offset(offset)),)))

    def read_committed(self, process: int, offset: int | None) -> Op:
        read = GroupOffsets("g", ((T0, None if offset is None else Offset(offset)),))
        return self.complete(process, "committed", GroupOffsets("g"), read)

    def kinds(self, checker: Checker) -> list[str]:
        return list(check_with(checker, self.ops).kinds())

    def check_single(self, checker: Checker, kind: str, *proof: Op) -> str:
        """Check that the checker reports exactly one anomaly, of this kind and with this proof; return its sentence."""
        findings: Findings = check_with(checker, self.ops)
        assert [anomaly.kind for anomaly in findings.anomalies] == [kind], findings.anomalies
        assert findings.anomalies[0].ops == proof
        return findings.anomalies[0].what
