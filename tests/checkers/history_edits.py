"""Facts of a history (values sent, values seen, with their places), and the same history with a small change.

Written without the checkers and their bookkeeping, for the mutations, which must not share a checker's mistakes."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from jepsen.checkers import Fetched, ListOffsets, Op, Poll, Send
from raftlog.types import Offset, TopicPartition

History = list[Op]
Change = Callable[[Fetched], Fetched]


class Sent(NamedTuple):
    """One value of a send with its invocation and completion (places in the history; no completion: `None`)."""

    partition: TopicPartition
    value: Any
    process: int
    invoked: int
    completed: int | None
    type: str
    offset: Offset | None
    """Acknowledged offset."""


def pairs(ops: History, *kinds: str) -> Iterator[tuple[int, int | None]]:
    """Yield places of invocations of these kinds, each with that of its completion."""
    open_at: dict[int, int] = {}
    completions: dict[int, int] = {}
    for at, op in enumerate(ops):
        if op.type == "invoke":
            open_at[op.process] = at
        elif op.process in open_at:
            invoked = open_at.pop(op.process)
            if op.kind != "crash":
                completions[invoked] = at
    for at, op in enumerate(ops):
        if op.type == "invoke" and op.kind in kinds:
            yield at, completions.get(at)


def sends(ops: History) -> list[Sent]:
    found = []
    for invoked, completed in pairs(ops, "send"):
        op = ops[invoked if completed is None else completed]
        send = op.payload
        assert isinstance(send, Send)
        for number, value in enumerate(send.values):
            offset = send.offsets[number] if send.offsets else None
            found.append(Sent(send.partition, value, op.process, invoked, completed, op.type, offset))
    return found


def acknowledged(ops: History) -> list[tuple[Sent, Offset]]:
    return [(sent, sent.offset) for sent in sends(ops) if sent.offset is not None]


def polls(ops: History) -> list[tuple[int, Fetched]]:
    """Return the results of polls for each partition, with the place of the poll."""
    return [(at, f) for at, op in enumerate(ops) if isinstance(op.payload, Poll) for f in op.payload.fetched]


def polled(ops: History) -> dict[tuple[TopicPartition, Any], Offset]:
    """Return the offset at which polls showed each value; in a correct history there is one."""
    return {(f.partition, value): offset for _, f in polls(ops) for offset, value in records(f)}


def known_offsets(ops: History, partition: TopicPartition) -> list[Offset]:
    shown = {offset for (p, _), offset in polled(ops).items() if p == partition}
    return sorted(shown | {offset for sent, offset in acknowledged(ops) if sent.partition == partition})


def listed(ops: History) -> list[tuple[int, int, ListOffsets]]:
    """Return answered lists: places of invocation and completion, and the answer."""
    found = []
    for invoked, completed in pairs(ops, "list"):
        if completed is not None and ops[completed].type == "ok":
            answer = ops[completed].payload
            assert isinstance(answer, ListOffsets)
            found.append((invoked, completed, answer))
    return found


def log_start(ops: History, partition: TopicPartition) -> int:
    """Return the greatest log start in any answer."""
    return max((r.start for _, _, answer in listed(ops) for r in answer.ranges if r.partition == partition), default=0)


def lasting(ops: History) -> list[tuple[Sent, Offset]]:
    """Return acknowledged records that retention left."""
    return [(sent, offset) for sent, offset in acknowledged(ops) if offset >= log_start(ops, sent.partition)]


def steps(ops: History) -> list[tuple[int, int, TopicPartition]]:
    """Return pairs of polls of one process in one partition that must continue each other."""
    found = []
    join_state: dict[int, dict[TopicPartition, int]] = {}
    subscribed: dict[int, bool] = {}
    for at, op in enumerate(ops):
        if op.kind in ("assign", "subscribe") and op.type in ("ok", "info"):
            kept = op.type == "info" and subscribed.get(op.process, False)
            join_state[op.process], subscribed[op.process] = {}, kept or op.kind == "subscribe"
        elif op.kind == "crash" or (op.kind == "poll" and op.type == "info"):
            join_state[op.process] = {}
            if op.kind == "crash":
                subscribed[op.process] = False
        elif isinstance(op.payload, Poll) and not subscribed.get(op.process, False):
            for fetched in op.payload.fetched:
                if fetched.offsets:
                    before = join_state.setdefault(op.process, {}).get(fetched.partition)
                    found += [] if before is None else [(before, at, fetched.partition)]
                    join_state[op.process][fetched.partition] = at
    return found


# changing a history


def with_op(ops: History, at: int, op: Op) -> History:
    return [*ops[:at], op, *ops[at + 1 :]]


def with_fetched(ops: History, change: Change, places: Sequence[int] | None = None) -> History:
    """Return the history with `change` applied to the results of all polls, or of those in these places."""
    changed = list(ops)
    for at, op in enumerate(ops):
        if isinstance(op.payload, Poll) and (places is None or at in places):
            changed[at] = op._replace(payload=Poll(tuple(change(fetched) for fetched in op.payload.fetched)))
    return changed


def records(fetched: Fetched) -> list[tuple[Offset, Any]]:
    return list(zip(fetched.offsets, fetched.values, strict=True))


def fetched_of(partition: TopicPartition, found: Sequence[tuple[Offset, Any]]) -> Fetched:
    return Fetched(partition, tuple(offset for offset, _ in found), tuple(value for _, value in found))


def editing(partition: TopicPartition, edit: Callable[[list[tuple[Offset, Any]]], list[tuple[Offset, Any]]]) -> Change:
    """Return a change of one partition's records."""

    def change(fetched: Fetched) -> Fetched:
        return fetched_of(partition, edit(records(fetched))) if fetched.partition == partition else fetched

    return change


def without(partition: TopicPartition, gone: Callable[[Offset], bool]) -> Change:
    return editing(partition, lambda found: [record for record in found if not gone(record[0])])


def with_offset(ops: History, sent: Sent, offset: int) -> History:
    """Return the history with the value acknowledged at another offset."""
    assert sent.completed is not None
    op = ops[sent.completed]
    assert isinstance(op.payload, Send)
    told = dict(zip(op.payload.values, op.payload.offsets, strict=True)) | {sent.value: Offset(offset)}
    return with_op(ops, sent.completed, op._replace(payload=op.payload._replace(offsets=tuple(told.values()))))


def failing(ops: History, invoked: int, completed: int) -> History:
    """Return the history with the operation marked as definitely failed."""
    failed = ops[completed]._replace(type="fail", payload=ops[invoked].payload, error="refused")
    return with_op(ops, completed, failed)


def swapped(ops: History, one: Sent, other: Sent, offsets: tuple[Offset, Offset]) -> History:
    """Return the history with two values exchanged in all acknowledgements and polls."""
    for sent, offset in zip((one, other), reversed(offsets), strict=True):
        ops = with_offset(ops, sent, offset) if sent.offset is not None else ops
    values = dict(zip(reversed(offsets), (one.value, other.value), strict=True))
    return with_fetched(ops, editing(one.partition, lambda found: [(o, values.get(o, v)) for o, v in found]))


def renumbered(ops: History) -> History:
    """Return the history with times in this order."""
    times = [0]
    for op in ops:
        times.append(max(times[-1], op.time_ns))
    return [op._replace(sequence=at, time_ns=times[at + 1]) for at, op in enumerate(ops)]
