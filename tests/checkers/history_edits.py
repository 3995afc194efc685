"""Facts of a history (values sent and polled, with their indexes), and edits that return a slightly changed history.

Written without the checkers and their bookkeeping, for the mutations, which must not share a checker's mistakes."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from jepsen.checkers import Fetched, ListOffsets, Op, Poll, Send
from raftlog.types import Offset, TopicPartition

History = list[Op]
Change = Callable[[Fetched], Fetched]


class Sent(NamedTuple):
    """One sent value with the indexes of its invocation and completion in the history (None without completion)."""

    partition: TopicPartition
    value: Any
    process: int
    invoked: int
    completed: int | None
    type: str
    offset: Offset | None
    """Acknowledged offset."""


def list_pairs(ops: History, *kinds: str) -> Iterator[tuple[int, int | None]]:
    """Yield the indexes of invocation and completion for operations of these kinds."""
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


def list_sends(ops: History) -> list[Sent]:
    """Return each value that was sent, with the indexes of its operations and its offset if it is known."""
    found = []
    for invoked, completed in list_pairs(ops, "send"):
        op = ops[invoked if completed is None else completed]
        send = op.payload
        assert isinstance(send, Send)
        for number, value in enumerate(send.values):
            offset = send.offsets[number] if send.offsets else None
            found.append(Sent(send.partition, value, op.process, invoked, completed, op.type, offset))
    return found


def list_acknowledged(ops: History) -> list[tuple[Sent, Offset]]:
    return [(sent, sent.offset) for sent in list_sends(ops) if sent.offset is not None]


def list_polls(ops: History) -> list[tuple[int, Fetched]]:
    """Return the polled records per partition, each with the index of the poll."""
    return [(at, f) for at, op in enumerate(ops) if isinstance(op.payload, Poll) for f in op.payload.fetched]


def polled_offsets(ops: History) -> dict[tuple[TopicPartition, Any], Offset]:
    """Return the offset at which polls showed each value; in a correct history there is only one."""
    return {(f.partition, value): offset for _, f in list_polls(ops) for offset, value in list_records(f)}


def known_offsets(ops: History, partition: TopicPartition) -> list[Offset]:
    shown = {offset for (p, _), offset in polled_offsets(ops).items() if p == partition}
    return sorted(shown | {offset for sent, offset in list_acknowledged(ops) if sent.partition == partition})


def list_answered_lists(ops: History) -> list[tuple[int, int, ListOffsets]]:
    """Return answered `list` operations: indexes of invocation and completion, and the answer."""
    found = []
    for invoked, completed in list_pairs(ops, "list"):
        if completed is not None and ops[completed].type == "ok":
            answer = ops[completed].payload
            assert isinstance(answer, ListOffsets)
            found.append((invoked, completed, answer))
    return found


def log_start(ops: History, partition: TopicPartition) -> int:
    """Return the highest log start in any answer."""
    return max(
        (r.start for _, _, answer in list_answered_lists(ops) for r in answer.ranges if r.partition == partition),
        default=0,
    )


def list_retained(ops: History) -> list[tuple[Sent, Offset]]:
    """Return the acknowledged records that retention did not remove."""
    return [(sent, offset) for sent, offset in list_acknowledged(ops) if offset >= log_start(ops, sent.partition)]


def list_consecutive_polls(ops: History) -> list[tuple[int, int, TopicPartition]]:
    """Return pairs of polls of one process and partition where the second must continue the first."""
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


def replace_op(ops: History, at: int, op: Op) -> History:
    return [*ops[:at], op, *ops[at + 1 :]]


def edit_fetched(ops: History, change: Change, places: Sequence[int] | None = None) -> History:
    """Return the history with `change` applied to the results of all polls, or only of those at `places`."""
    changed = list(ops)
    for at, op in enumerate(ops):
        if isinstance(op.payload, Poll) and (places is None or at in places):
            changed[at] = op._replace(payload=Poll(tuple(change(fetched) for fetched in op.payload.fetched)))
    return changed


def list_records(fetched: Fetched) -> list[tuple[Offset, Any]]:
    return list(zip(fetched.offsets, fetched.values, strict=True))


def make_fetched(partition: TopicPartition, found: Sequence[tuple[Offset, Any]]) -> Fetched:
    return Fetched(partition, tuple(offset for offset, _ in found), tuple(value for _, value in found))


def edit_partition(
    partition: TopicPartition, edit: Callable[[list[tuple[Offset, Any]]], list[tuple[Offset, Any]]]
) -> Change:
    """Return a change that applies `edit` to one partition's records."""

    def change(fetched: Fetched) -> Fetched:
        return make_fetched(partition, edit(list_records(fetched))) if fetched.partition == partition else fetched

    return change


def remove_records(partition: TopicPartition, gone: Callable[[Offset], bool]) -> Change:
    return edit_partition(partition, lambda found: [record for record in found if not gone(record[0])])


def move_acknowledged(ops: History, sent: Sent, offset: int) -> History:
    """Return the history with the value acknowledged at another offset."""
    assert sent.completed is not None
    op = ops[sent.completed]
    assert isinstance(op.payload, Send)
    told = dict(zip(op.payload.values, op.payload.offsets, strict=True)) | {sent.value: Offset(offset)}
    return replace_op(ops, sent.completed, op._replace(payload=op.payload._replace(offsets=tuple(told.values()))))


def mark_failed(ops: History, invoked: int, completed: int) -> History:
    """Return the history with the operation marked as definitely failed."""
    failed = ops[completed]._replace(type="fail", payload=ops[invoked].payload, error="refused")
    return replace_op(ops, completed, failed)


def swap_values(ops: History, one: Sent, other: Sent, offsets: tuple[Offset, Offset]) -> History:
    """Return the history with two values exchanged in all acknowledgements and polls."""
    for sent, offset in zip((one, other), reversed(offsets), strict=True):
        ops = move_acknowledged(ops, sent, offset) if sent.offset is not None else ops
    values = dict(zip(reversed(offsets), (one.value, other.value), strict=True))
    return edit_fetched(ops, edit_partition(one.partition, lambda found: [(o, values.get(o, v)) for o, v in found]))


def renumber(ops: History) -> History:
    """Return the history with its times replaced by the order of its entries."""
    times = [0]
    for op in ops:
        times.append(max(times[-1], op.time_ns))
    return [op._replace(sequence=at, time_ns=times[at + 1]) for at, op in enumerate(ops)]
