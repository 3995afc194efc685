"""Mutations: each plants one anomaly in a clean history, or returns None if the history has no place for it.

A mutation changes the answers to clients, consistently enough that the result is a history; the checkers may find
further anomalies, but must name the planted kind. `choose` draws among all places that qualify."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from random import Random
from typing import Any, NamedTuple, TypeVar

from jepsen.checkers import AnomalyKind, Assign, GroupOffsets, ListOffsets, Op, Poll, Send
from raftlog.types import Offset, TopicPartition
from tests.checkers.history_edits import (
    History,
    Sent,
    edit_fetched,
    edit_partition,
    known_offsets,
    list_acknowledged,
    list_answered_lists,
    list_consecutive_polls,
    list_pairs,
    list_polls,
    list_records,
    list_retained,
    list_sends,
    log_start,
    mark_failed,
    move_acknowledged,
    polled_offsets,
    remove_records,
    renumber,
    replace_op,
    swap_values,
)

T = TypeVar("T")
Plant = Callable[[History, Random], History | None]


class Mutation(NamedTuple):
    """Function that plants an anomaly, with the kind that checkers must report."""

    kind: AnomalyKind
    plant: Plant


NEVER_SENT = 1_000_000
MUTATIONS: dict[str, Mutation] = {}


def registers_as(kind: AnomalyKind) -> Callable[[Plant], Plant]:
    def register(plant: Plant) -> Plant:
        MUTATIONS[plant.__name__] = Mutation(kind, plant)
        return plant

    return register


def choose(random: Random, places: Sequence[T]) -> T | None:
    return random.choice(places) if places else None


# records


@registers_as("lost-write")
def lose_a_record(ops: History, random: Random) -> History | None:
    shown = polled_offsets(ops)
    last = {p: max((o for (q, _), o in shown.items() if q == p), default=-1) for p, _ in shown}
    places = [(sent, at) for sent, at in list_retained(ops) if at < last.get(sent.partition, -1)]
    if (place := choose(random, places)) is None:
        return None
    sent, lost = place
    return edit_fetched(ops, remove_records(sent.partition, lambda offset: offset == lost))


@registers_as("unseen")
def lose_the_end(ops: History, random: Random) -> History | None:
    if (place := choose(random, list_retained(ops))) is None:
        return None
    sent, lost = place
    return edit_fetched(ops, remove_records(sent.partition, lambda offset: offset >= lost))


@registers_as("lost-write")
def overwrite_a_record(ops: History, random: Random) -> History | None:
    """Replace an acknowledged value by another one in every poll."""
    others = {sent.partition: sent.value for sent in list_sends(ops) if sent.offset is None}
    shown = polled_offsets(ops)
    places = [
        (sent, at)
        for sent, at in list_retained(ops)
        if sent.partition in others and (sent.partition, sent.value) in shown
    ]
    if (place := choose(random, places)) is None:
        return None
    sent, lost = place
    other = others[sent.partition]
    overwrite = edit_partition(sent.partition, lambda found: [(o, other if o == lost else v) for o, v in found])
    return edit_fetched(ops, overwrite)


@registers_as("duplicate")
def store_a_record_twice(ops: History, random: Random) -> History | None:
    """Append a copy of a record at the end, which the last poll shows."""
    place = choose(random, list(polled_offsets(ops)))
    return None if place is None else _append_copy(ops, *place)


@registers_as("duplicate")
def acknowledge_a_second_copy_of_a_retry(ops: History, random: Random) -> History | None:
    shown = polled_offsets(ops)
    sent = choose(random, [sent for sent, _ in list_acknowledged(ops) if (sent.partition, sent.value) in shown])
    if sent is None:
        return None
    end = known_offsets(ops, sent.partition)[-1] + 1
    return move_acknowledged(_append_copy(ops, sent.partition, sent.value), sent, end)


def _append_copy(ops: History, partition: TopicPartition, value: Any) -> History:
    end = Offset(known_offsets(ops, partition)[-1] + 1)
    last = max(at for at, fetched in list_polls(ops) if fetched.partition == partition and fetched.offsets)
    return edit_fetched(ops, edit_partition(partition, lambda found: [*found, (end, value)]), [last])


@registers_as("inconsistent-offset")
def show_one_reader_another_value(ops: History, random: Random) -> History | None:
    """Change the value of a record in one of several polls that returned it."""
    shown: dict[tuple[TopicPartition, Offset], list[int]] = {}
    for sent, offset in list_acknowledged(ops):
        shown.setdefault((sent.partition, offset), []).append(-1)
    for at, fetched in list_polls(ops):
        for offset in fetched.offsets:
            shown.setdefault((fetched.partition, offset), []).append(at)
    seen_twice = [(*key, at) for key, places in shown.items() if len(places) > 1 for at in places if at >= 0]
    if (place := choose(random, seen_twice)) is None:
        return None
    partition, offset, at = place
    here = next(
        v for i, f in list_polls(ops) if (i, f.partition) == (at, partition) for o, v in list_records(f) if o == offset
    )
    others = [sent.value for sent in list_sends(ops) if sent.partition == partition and sent.value != here]
    other = random.choice([*others, NEVER_SENT])
    changed = edit_partition(partition, lambda found: [(o, other if o == offset else v) for o, v in found])
    return edit_fetched(ops, changed, [at])


@registers_as("inconsistent-offset")
def acknowledge_an_offset_twice(ops: History, random: Random) -> History | None:
    places = [
        (sent, offset)
        for sent, own in list_acknowledged(ops)
        for other, offset in list_acknowledged(ops)
        if sent.partition == other.partition and own != offset
    ]
    return None if (place := choose(random, places)) is None else move_acknowledged(ops, *place)


@registers_as("aborted-read")
def read_a_failed_send(ops: History, random: Random) -> History | None:
    shown = polled_offsets(ops)
    places = [
        (sent.invoked, sent.completed)
        for sent in list_sends(ops)
        if sent.completed is not None and (sent.partition, sent.value) in shown
    ]
    return None if (place := choose(random, places)) is None else mark_failed(ops, *place)


@registers_as("phantom")
def read_a_value_never_sent(ops: History, random: Random) -> History | None:
    shown = polled_offsets(ops)
    places = [sent for sent in list_sends(ops) if (sent.partition, sent.value) in shown]
    if (sent := choose(random, places)) is None:
        return None
    return [op for at, op in enumerate(ops) if at not in (sent.invoked, sent.completed)]


@registers_as("phantom")
def read_a_value_before_it_is_sent(ops: History, random: Random) -> History | None:
    shown = polled_offsets(ops)
    places = [sent for sent in list_sends(ops) if sent.completed is not None and (sent.partition, sent.value) in shown]
    if (sent := choose(random, places)) is None:
        return None
    assert sent.completed is not None
    rest = [op for at, op in enumerate(ops) if at not in (sent.invoked, sent.completed)]
    return renumber([*rest, ops[sent.invoked], ops[sent.completed]])


@registers_as("gap")
def leave_offsets_out(ops: History, random: Random) -> History | None:
    """Raise all offsets from one on by one more than operations of unknown outcome could explain."""
    places = []
    for partition in dict.fromkeys(sent.partition for sent in list_sends(ops)):
        offsets = known_offsets(ops, partition)
        places += [(partition, at) for at in offsets[1:] if at > max(offsets[0], log_start(ops, partition))]
    if (place := choose(random, places)) is None:
        return None
    partition, first = place
    shown = polled_offsets(ops)
    unknown = [s for s in list_sends(ops) if s.type in ("invoke", "info") and (s.partition, s.value) not in shown]
    step = 1 + sum(sent.partition == partition for sent in unknown)
    return [_shift_offsets(op, partition, first, step) for op in ops]


def _shift_offsets(op: Op, partition: TopicPartition, first: int, step: int) -> Op:
    """Return the operation with `step` added to its offsets of the partition from `first` on."""

    def shift(offset: int) -> Offset:
        return Offset(offset + step if offset >= first else offset)

    payload = op.payload
    if isinstance(payload, Send) and payload.partition == partition:
        payload = payload._replace(offsets=tuple(map(shift, payload.offsets)))
    elif isinstance(payload, Poll):
        change = edit_partition(partition, lambda found: [(shift(offset), value) for offset, value in found])
        payload = Poll(tuple(map(change, payload.fetched)))
    elif isinstance(payload, ListOffsets):
        ranges = (r._replace(end=shift(r.end - 1) + 1) if r.partition == partition else r for r in payload.ranges)
        payload = payload._replace(ranges=tuple(ranges))
    elif isinstance(payload, Assign):
        payload = Assign(tuple((p, shift(o) if o is not None and p == partition else o) for p, o in payload.positions))
    return op._replace(payload=payload)


# polls


@registers_as("nonmonotonic-poll")
def move_a_consumer_back(ops: History, random: Random) -> History | None:
    if (place := choose(random, list_consecutive_polls(ops))) is None:
        return None
    before, at, partition = place
    (again,) = (f for f in ops[before].payload.fetched if f.partition == partition)
    repeated = list_records(again)[-random.randint(1, len(again.offsets)) :]
    return edit_fetched(ops, edit_partition(partition, lambda found: [*repeated, *found]), [at])


@registers_as("poll-skip")
def skip_records_between_polls(ops: History, random: Random) -> History | None:
    sizes = {(at, f.partition): len(f.offsets) for at, f in list_polls(ops)}
    places = [(at, partition) for _, at, partition in list_consecutive_polls(ops) if sizes[at, partition] > 1]
    if (place := choose(random, places)) is None:
        return None
    at, partition = place
    return edit_fetched(ops, edit_partition(partition, lambda found: found[1:]), [at])


@registers_as("int-nonmonotonic-poll")
def move_a_poll_back(ops: History, random: Random) -> History | None:
    """Swap two neighbouring records of a poll, so that its offsets decrease."""
    places = [(at, f.partition) for at, f in list_polls(ops) if len(f.offsets) > 1]
    if (place := choose(random, places)) is None:
        return None
    at, partition = place
    number = random.randrange(1, len(next(f for i, f in list_polls(ops) if (i, f.partition) == place).offsets))

    def swap(found: list[tuple[Offset, Any]]) -> list[tuple[Offset, Any]]:
        return [*found[: number - 1], found[number], found[number - 1], *found[number + 1 :]]

    return edit_fetched(ops, edit_partition(partition, swap), [at])


@registers_as("int-poll-skip")
def leave_records_out_of_a_poll(ops: History, random: Random) -> History | None:
    places = [(at, f.partition, len(f.offsets)) for at, f in list_polls(ops) if len(f.offsets) > 2]
    if (place := choose(random, places)) is None:
        return None
    at, partition, count = place
    first = random.randint(1, count - 2)
    after = random.randint(first + 1, count - 1)
    return edit_fetched(ops, edit_partition(partition, lambda found: found[:first] + found[after:]), [at])


# the order of offsets


def _list_ordered_sends(ops: History, *, own: bool, is_acknowledged: bool) -> list[tuple[Sent, Sent, Offset, Offset]]:
    """Return pairs of sends, the first acknowledged before the second began.

    With `own` by one process, without by none of its."""
    shown = polled_offsets(ops)
    last_polls = {(f.partition, value): at for at, f in list_polls(ops) for value in f.values}
    places = []
    for later in list_sends(ops):
        at = shown.get((later.partition, later.value)) if later.offset is None else later.offset
        if at is None or is_acknowledged != (later.offset is not None):
            continue
        before = [
            (sent, offset)
            for sent, offset in list_acknowledged(ops)
            if sent.partition == later.partition and sent.completed is not None and sent.completed < later.invoked
        ]
        own_last = max((offset for sent, offset in before if sent.process == later.process), default=-1)
        for sent, offset in before:
            if not is_acknowledged and last_polls.get((sent.partition, sent.value), -1) < later.invoked:
                continue  # no poll would show where the later one is now
            if (offset <= own_last) if own else (offset > own_last):
                places.append((sent, later, offset, at))
    return places


def _swap_order(ops: History, random: Random, *, own: bool, is_acknowledged: bool = True) -> History | None:
    place = choose(random, _list_ordered_sends(ops, own=own, is_acknowledged=is_acknowledged))
    return None if place is None else swap_values(ops, place[0], place[1], place[2:])


@registers_as("offset-order")
def give_a_later_send_a_lower_offset(ops: History, random: Random) -> History | None:
    return _swap_order(ops, random, own=False)


@registers_as("offset-order")
def show_a_later_send_of_unknown_outcome_at_a_lower_offset(ops: History, random: Random) -> History | None:
    return _swap_order(ops, random, own=False, is_acknowledged=False)


@registers_as("nonmonotonic-send")
def give_a_later_send_of_one_process_a_lower_offset(ops: History, random: Random) -> History | None:
    return _swap_order(ops, random, own=True)


@registers_as("int-nonmonotonic-send")
def swap_values_of_one_send(ops: History, random: Random) -> History | None:
    found = list_acknowledged(ops)
    places = [
        (one, other, low, high) for (one, low), (other, high) in pairwise(found) if one.completed == other.completed
    ]
    return None if (place := choose(random, places)) is None else swap_values(ops, place[0], place[1], place[2:])


# numbers that go back


def _list_repeated_lists(ops: History, field: str) -> list[tuple[int, TopicPartition, int]]:
    """Return lists by a process that had received a number above 0 before: index, partition and that number."""
    places, told = [], dict[tuple[int, TopicPartition], int]()
    for _, at, answer in sorted(list_answered_lists(ops), key=lambda found: found[1]):
        for answered in answer.ranges:
            key = ops[at].process, answered.partition
            if told.get(key, 0) > 0:
                places.append((at, answered.partition, told[key]))
            told[key] = getattr(answered, field)
    return places


def _replace_range(ops: History, at: int, partition: TopicPartition, **changes: Offset) -> History:
    answer = ops[at].payload
    assert isinstance(answer, ListOffsets)
    ranges = tuple(r._replace(**changes) if r.partition == partition else r for r in answer.ranges)
    return replace_op(ops, at, ops[at]._replace(payload=answer._replace(ranges=ranges)))


@registers_as("end-went-back")
def move_the_end_back(ops: History, random: Random) -> History | None:
    if (place := choose(random, _list_repeated_lists(ops, "end"))) is None:
        return None
    at, partition, before = place
    return _replace_range(ops, at, partition, end=Offset(random.randrange(before)))


@registers_as("start-went-back")
def move_the_start_back(ops: History, random: Random) -> History | None:
    if (place := choose(random, _list_repeated_lists(ops, "start"))) is None:
        return None
    at, partition, before = place
    return _replace_range(ops, at, partition, start=Offset(random.randrange(before)))


@registers_as("stale-end")
def make_a_linearizable_list_stale(ops: History, random: Random) -> History | None:
    """Lower an end offset in a linearizable list below one that was known before it began."""
    places = []
    for invoked, at, answer in list_answered_lists(ops):
        if answer.linearizable:
            before = ops[:invoked]
            for partition in dict.fromkeys(r.partition for r in answer.ranges):
                ends = [
                    r.end - 1 for _, _, a in list_answered_lists(before) for r in a.ranges if r.partition == partition
                ]
                highest = max([*known_offsets(before, partition), *ends], default=-1)
                places += [(at, partition, highest)] if highest >= 0 else []
    if (place := choose(random, places)) is None:
        return None
    at, partition, highest = place
    return _replace_range(ops, at, partition, end=Offset(random.randint(0, highest)))


def _list_committed_before(ops: History) -> list[tuple[int, TopicPartition, int]]:
    """Return reads of a group's offset: index, partition, and highest offset committed or read before."""
    places = []
    for invoked, at in list_pairs(ops, "committed"):
        if at is None or ops[at].type != "ok":
            continue
        known: dict[TopicPartition, int] = {}
        for op in ops[:invoked]:
            if op.type == "ok" and isinstance(op.payload, GroupOffsets):
                known |= {p: max(o, known.get(p, -1)) for p, o in op.payload.offsets if o is not None}
        places += [(at, partition, floor) for partition, floor in known.items()]
    return places


def _replace_committed(ops: History, at: int, partition: TopicPartition, offset: int | None) -> History:
    read = ops[at].payload
    assert isinstance(read, GroupOffsets)
    offsets = tuple((p, offset if p == partition else o) for p, o in read.offsets)
    return replace_op(ops, at, ops[at]._replace(payload=read._replace(offsets=offsets)))


@registers_as("committed-went-back")
def move_a_group_back(ops: History, random: Random) -> History | None:
    if (place := choose(random, [place for place in _list_committed_before(ops) if place[2] > 0])) is None:
        return None
    at, partition, floor = place
    return _replace_committed(ops, at, partition, random.randrange(floor))


@registers_as("committed-went-back")
def drop_the_offset_of_a_group(ops: History, random: Random) -> History | None:
    if (place := choose(random, _list_committed_before(ops))) is None:
        return None
    return _replace_committed(ops, place[0], place[1], None)


@registers_as("phantom-commit")
def show_an_offset_that_was_never_committed(ops: History, random: Random) -> History | None:
    places = [at for _, at in list_pairs(ops, "committed") if at is not None and ops[at].type == "ok"]
    if (at := choose(random, places)) is None:
        return None
    partition = random.choice([p for p, _ in ops[at].payload.offsets])
    return _replace_committed(ops, at, partition, NEVER_SENT)


@registers_as("phantom-commit")
def read_a_failed_commit(ops: History, random: Random) -> History | None:
    """Mark the only commit of an offset that was read as failed, before the read or after it."""
    read = {
        place
        for op in ops
        if op.kind == "committed" and isinstance(op.payload, GroupOffsets)
        for place in op.payload.offsets
    }
    attempts: dict[tuple[TopicPartition, Offset | None], list[tuple[int, int | None]]] = {}
    for invoked, completed in list_pairs(ops, "commit"):
        for place in ops[invoked].payload.offsets:
            attempts.setdefault(place, []).append((invoked, completed))
    places = [tries[0] for place, tries in attempts.items() if place in read and len(tries) == 1]
    complete = [(invoked, completed) for invoked, completed in places if completed is not None]
    return None if (found := choose(random, complete)) is None else mark_failed(ops, *found)
