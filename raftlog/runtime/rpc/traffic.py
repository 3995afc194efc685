"""Counts of messages and bytes between this process and others, in plain integers that connections add to.

A *logical message* is one Raft message of one group, one request, one answer (also a failure), or one heartbeat
of the process, even if several share a frame, or several frames a write. Sent messages count when they are passed to
the socket, received ones when they were decoded; handshakes do not count. The cost is one addition for each message,
none for entries or records. Each channel of a process has its counts; they are summed up on request."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from raftlog.raft.messages import Heartbeat
from raftlog.runtime.rpc.frames.codec import MESSAGE_TYPES
from raftlog.runtime.rpc.frames.frame import FrameKind
from raftlog.runtime.transport import Envelope

NOTICE: Final = "commit_notice"
"""Kind of a heartbeat without a number: it announces a commit to a follower, and expects no answer."""
_FRAME_NAMES: Final = {
    FrameKind.BEAT: "beat",
    FrameKind.CALL: "request",
    FrameKind.ANSWER: "answer",
    FrameKind.FAILURE: "answer",
}
_WORD: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_TYPE_NAMES: Final = {kind: _WORD.sub("_", kind.__name__).lower() for kind in MESSAGE_TYPES}


class Flow:
    """Counts of the messages and bytes that one channel sends or receives."""

    __slots__ = ("_by_frame", "_by_type", "_notices", "bytes", "writes")

    def __init__(self) -> None:
        self._by_type: defaultdict[type, int] = defaultdict(int)
        self._by_frame: defaultdict[int, int] = defaultdict(int)
        self._notices = 0
        self.bytes = 0
        """Bytes of whole frames, heads included; without those that TLS adds."""
        self.writes = 0
        """Number of writes to the socket, each with all queued frames; 0 for the incoming direction."""

    def count_messages(self, envelopes: Iterable[Envelope]) -> None:
        """Count Raft messages by type; a heartbeat without a sequence is a commit notice."""
        counts = self._by_type
        for _, message in envelopes:
            if isinstance(message, Heartbeat) and message.sequence == 0:
                self._notices += 1
            else:
                counts[type(message)] += 1

    def count_frame(self, kind: int) -> None:
        """Count a request, an answer or a heartbeat."""
        self._by_frame[kind] += 1

    def messages(self) -> Counter[str]:
        """Return the counts of Raft messages and other frames by kind; kinds that never occurred are omitted."""
        totals: Counter[str] = Counter()
        for kind, count in self._by_type.items():
            totals[_TYPE_NAMES[kind]] += count
        for frame, count in self._by_frame.items():
            totals[_FRAME_NAMES[FrameKind(frame)]] += count
        if self._notices:
            totals[NOTICE] += self._notices
        return totals


class Traffic:
    """Counts of both directions of one channel."""

    __slots__ = ("received", "sent")

    def __init__(self) -> None:
        self.received, self.sent = Flow(), Flow()


class TrafficTotals(NamedTuple):
    """Counts of a process since its start, by kind of message and by channel, which are few and fixed."""

    messages_in: Mapping[str, int]
    messages_out: Mapping[str, int]
    bytes_in: Mapping[str, int]
    """By channel: raft, bulk, probe."""
    bytes_out: Mapping[str, int]
    writes: Mapping[str, int]


def sum_totals(channels: Mapping[str, Traffic]) -> TrafficTotals:
    """Sum the messages over all channels; return them with bytes and writes by channel name."""
    messages_in: Counter[str] = Counter()
    messages_out: Counter[str] = Counter()
    for traffic in channels.values():
        messages_in.update(traffic.received.messages())
        messages_out.update(traffic.sent.messages())
    return TrafficTotals(
        messages_in,
        messages_out,
        {name: traffic.received.bytes for name, traffic in channels.items()},
        {name: traffic.sent.bytes for name, traffic in channels.items()},
        {name: traffic.sent.writes for name, traffic in channels.items()},
    )
