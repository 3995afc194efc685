"""Mutations: each takes a clean history and plants one anomaly in it, or returns None if there is no place for it.

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
    acknowledged,
    editing,
    failing,
    known_offsets,
    lasting,
    listed,
    log_start,
    pairs,
    polled,
    polls,
    records,
    renumbered,
    sends,
    steps,
    swapped,
    with_fetched,
    with_offset,
    with_op,
    without,
)

T = TypeVar("T")
Plant = Callable[[History, Random], History | None]


class Mutation(NamedTuple):
    kind: AnomalyKind
    plant: Plant


NEVER_SENT = 1_000_000
MUTATIONS: dict[str, Mutation] = {}


def plants(kind: AnomalyKind) -> Callable[[Plant], Plant]:
    def register(plant: Plant) -> Plant:
        MUTATIONS[plant.__name__] = Mutation(kind, plant)
        return plant

    return register


def choose(random: Random, places: Sequence[T]) -> T | None:
    return random.choice(places) if places else None


# records


@plants("lost-write")
def a_record_is_lost(ops: History, random: Random) -> History | None:
    shown = polled(ops)
    last = {p: max((o for (q, _), o in shown.items() if q == p), default=-1) for p, _ in shown}
    places = [(sent, at) for sent, at in lasting(ops) if at < last.get(sent.partition, -1)]
    if (place := choose(random, places)) is None:
        return None
    sent, lost = place
    return with_fetched(ops, without(sent.partition, lambda offset: offset == lost))


@plants("unseen")
def the_end_is_lost(ops: History, random: Random) -> History | None:
    if (place := choose(random, lasting(ops))) is None:
        return None
    sent, lost = place
    return with_fetched(ops, without(sent.partition, lambda offset: offset >= lost))


@plants("lost-write")
def a_record_is_overwritten(ops: History, random: Random) -> History | None:
    """Put another value in the place of an acknowledged one, in every poll."""
    others = {sent.partition: sent.value for sent in sends(ops) if sent.offset is None}
    shown = polled(ops)
    places = [
        (sent, at) for sent, at in lasting(ops) if sent.partition in others and (sent.partition, sent.value) in shown
    ]
    if (place := choose(random, places)) is None:
        return None
    sent, lost = place
    other = others[sent.partition]
    overwrite = editing(sent.partition, lambda found: [(o, other if o == lost else v) for o, v in found])
    return with_fetched(ops, overwrite)


@plants("duplicate")
def a_record_is_stored_twice(ops: History, random: Random) -> History | None:
    """Append a copy of a record at the end, where the last poll shows it."""
    place = choose(random, list(polled(ops)))
    return None if place is None else _with_copy(ops, *place)


@plants("duplicate")
def a_retry_is_stored_again_and_acknowledged_there(ops: History, random: Random) -> History | None:
    shown = polled(ops)
    sent = choose(random, [sent for sent, _ in acknowledged(ops) if (sent.partition, sent.value) in shown])
    if sent is None:
        return None
    end = known_offsets(ops, sent.partition)[-1] + 1
    return with_offset(_with_copy(ops, sent.partition, sent.value), sent, end)


def _with_copy(ops: History, partition: TopicPartition, value: Any) -> History:
    end = Offset(known_offsets(ops, partition)[-1] + 1)
    last = max(at for at, fetched in polls(ops) if fetched.partition == partition and fetched.offsets)
    return with_fetched(ops, editing(partition, lambda found: [*found, (end, value)]), [last])


@plants("inconsistent-offset")
def one_reader_sees_another_value(ops: History, random: Random) -> History | None:
    shown: dict[tuple[TopicPartition, Offset], list[int]] = {}
    for sent, offset in acknowledged(ops):
        shown.setdefault((sent.partition, offset), []).append(-1)
    for at, fetched in polls(ops):
        for offset in fetched.offsets:
            shown.setdefault((fetched.partition, offset), []).append(at)
    seen_twice = [(*key, at) for key, places in shown.items() if len(places) > 1 for at in places if at >= 0]
    if (place := choose(random, seen_twice)) is None:
        return None
    partition, offset, at = place
    here = next(v for i, f in polls(ops) if (i, f.partition) == (at, partition) for o, v in records(f) if o == offset)
    others = [sent.value for sent in sends(ops) if sent.partition == partition and sent.value != here]
    other = random.choice([*others, NEVER_SENT])
    changed = editing(partition, lambda found: [(o, other if o == offset else v) for o, v in found])
    return with_fetched(ops, changed, [at])


@plants("inconsistent-offset")
def an_offset_is_given_out_twice(ops: History, random: Random) -> History | None:
    places = [
        (sent, offset)
        for sent, own in acknowledged(ops)
        for other, offset in acknowledged(ops)
        if sent.partition == other.partition and own != offset
    ]
    return None if (place := choose(random, places)) is None else with_offset(ops, *place)


@plants("aborted-read")
def a_failed_send_is_read(ops: History, random: Random) -> History | None:
    shown = polled(ops)
    places = [
        (sent.invoked, sent.completed)
        for sent in sends(ops)
        if sent.completed is not None and (sent.partition, sent.value) in shown
    ]
    return None if (place := choose(random, places)) is None else failing(ops, *place)


@plants("phantom")
def what_was_read_was_never_sent(ops: History, random: Random) -> History | None:
    shown = polled(ops)
    places = [sent for sent in sends(ops) if (sent.partition, sent.value) in shown]
    if (sent := choose(random, places)) is None:
        return None
    return [op for at, op in enumerate(ops) if at not in (sent.invoked, sent.completed)]


@plants("phantom")
def what_was_read_was_sent_only_later(ops: History, random: Random) -> History | None:
    shown = polled(ops)
    places = [sent for sent in sends(ops) if sent.completed is not None and (sent.partition, sent.value) in shown]
    if (sent := choose(random, places)) is None:
        return None
    assert sent.completed is not None
    rest = [op for at, op in enumerate(ops) if at not in (sent.invoked, sent.completed)]
    return renumbered([*rest, ops[sent.invoked], ops[sent.completed]])


@plants("gap")
def offsets_are_left_out(ops: History, random: Random) -> History | None:
    """Raise all offsets from one on by one more than operations of unknown outcome could explain."""
    places = []
    for partition in dict.fromkeys(sent.partition for sent in sends(ops)):
        offsets = known_offsets(ops, partition)
        places += [(partition, at) for at in offsets[1:] if at > max(offsets[0], log_start(ops, partition))]
    if (place := choose(random, places)) is None:
        return None
    partition, first = place
    shown = polled(ops)
    unknown = [s for s in sends(ops) if s.type in ("invoke", "info") and (s.partition, s.value) not in shown]
    step = 1 + sum(sent.partition == partition for sent in unknown)
    return [_moved_up(op, partition, first, step) for op in ops]


def _moved_up(op: Op, partition: TopicPartition, first: int, step: int) -> Op:
    def up(offset: int) -> Offset:
        return Offset(offset + step if offset >= first else offset)

    payload = op.payload
    if isinstance(payload, Send) and payload.partition == partition:
        payload = payload._replace(offsets=tuple(map(up, payload.offsets)))
    elif isinstance(payload, Poll):
        change = editing(partition, lambda found: [(up(offset), value) for offset, value in found])
        payload = Poll(tuple(map(change, payload.fetched)))
    elif isinstance(payload, ListOffsets):
        ranges = (r._replace(end=up(r.end - 1) + 1) if r.partition == partition else r for r in payload.ranges)
        payload = payload._replace(ranges=tuple(ranges))
    elif isinstance(payload, Assign):
        payload = Assign(tuple((p, up(o) if o is not None and p == partition else o) for p, o in payload.positions))
    return op._replace(payload=payload)


# polls


@plants("nonmonotonic-poll")
def a_consumer_goes_back(ops: History, random: Random) -> History | None:
    if (place := choose(random, steps(ops))) is None:
        return None
    before, at, partition = place
    (again,) = (f for f in ops[before].payload.fetched if f.partition == partition)
    repeated = records(again)[-random.randint(1, len(again.offsets)) :]
    return with_fetched(ops, editing(partition, lambda found: [*repeated, *found]), [at])


@plants("poll-skip")
def a_consumer_skips_between_polls(ops: History, random: Random) -> History | None:
    sizes = {(at, f.partition): len(f.offsets) for at, f in polls(ops)}
    places = [(at, partition) for _, at, partition in steps(ops) if sizes[at, partition] > 1]
    if (place := choose(random, places)) is None:
        return None
    at, partition = place
    return with_fetched(ops, editing(partition, lambda found: found[1:]), [at])


@plants("int-nonmonotonic-poll")
def a_poll_goes_back(ops: History, random: Random) -> History | None:
    places = [(at, f.partition) for at, f in polls(ops) if len(f.offsets) > 1]
    if (place := choose(random, places)) is None:
        return None
    at, partition = place
    number = random.randrange(1, len(next(f for i, f in polls(ops) if (i, f.partition) == place).offsets))

    def swap(found: list[tuple[Offset, Any]]) -> list[tuple[Offset, Any]]:
        return [*found[: number - 1], found[number], found[number - 1], *found[number + 1 :]]

    return with_fetched(ops, editing(partition, swap), [at])


@plants("int-poll-skip")
def a_poll_leaves_records_out(ops: History, random: Random) -> History | None:
    places = [(at, f.partition, len(f.offsets)) for at, f in polls(ops) if len(f.offsets) > 2]
    if (place := choose(random, places)) is None:
        return None
    at, partition, count = place
    first = random.randint(1, count - 2)
    after = random.randint(first + 1, count - 1)
    return with_fetched(ops, editing(partition, lambda found: found[:first] + found[after:]), [at])


# the order of offsets


def _out_of_order(ops: History, *, own: bool, is_acknowledged: bool) -> list[tuple[Sent, Sent, Offset, Offset]]:
    """Return pairs of sends, the first acknowledged before the second began.

    With `own` by one process, without by none of its."""
    shown = polled(ops)
    last_polls = {(f.partition, value): at for at, f in polls(ops) for value in f.values}
    places = []
    for later in sends(ops):
        at = shown.get((later.partition, later.value)) if later.offset is None else later.offset
        if at is None or is_acknowledged != (later.offset is not None):
            continue
        before = [
            (sent, offset)
            for sent, offset in acknowledged(ops)
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
    place = choose(random, _out_of_order(ops, own=own, is_acknowledged=is_acknowledged))
    return None if place is None else swapped(ops, place[0], place[1], place[2:])


@plants("offset-order")
def a_later_send_gets_a_lower_offset(ops: History, random: Random) -> History | None:
    return _swap_order(ops, random, own=False)


@plants("offset-order")
def a_later_send_of_unknown_outcome_shows_up_at_a_lower_offset(ops: History, random: Random) -> History | None:
    return _swap_order(ops, random, own=False, is_acknowledged=False)


@plants("nonmonotonic-send")
def a_process_gets_a_lower_offset_for_its_later_send(ops: History, random: Random) -> History | None:
    return _swap_order(ops, random, own=True)


@plants("int-nonmonotonic-send")
def values_of_one_send_change_places(ops: History, random: Random) -> History | None:
    found = acknowledged(ops)
    places = [
        (one, other, low, high) for (one, low), (other, high) in pairwise(found) if one.completed == other.completed
    ]
    return None if (place := choose(random, places)) is None else swapped(ops, place[0], place[1], place[2:])


# numbers that go back


def _listed_twice(ops: History, field: str) -> list[tuple[int, TopicPartition, int]]:
    """Return lists by a process that had received a number above 0 before: place, partition and that number."""
    places, told = [], dict[tuple[int, TopicPartition], int]()
    for _, at, answer in sorted(listed(ops), key=lambda found: found[1]):
        for answered in answer.ranges:
            key = ops[at].process, answered.partition
            if told.get(key, 0) > 0:
                places.append((at, answered.partition, told[key]))
            told[key] = getattr(answered, field)
    return places


def _with_range(ops: History, at: int, partition: TopicPartition, **changes: Offset) -> History:
    answer = ops[at].payload
    assert isinstance(answer, ListOffsets)
    ranges = tuple(r._replace(**changes) if r.partition == partition else r for r in answer.ranges)
    return with_op(ops, at, ops[at]._replace(payload=answer._replace(ranges=ranges)))


@plants("end-went-back")
def the_end_goes_back(ops: History, random: Random) -> History | None:
    if (place := choose(random, _listed_twice(ops, "end"))) is None:
        return None
    at, partition, before = place
    return _with_range(ops, at, partition, end=Offset(random.randrange(before)))


@plants("start-went-back")
def the_start_goes_back(ops: History, random: Random) -> History | None:
    if (place := choose(random, _listed_twice(ops, "start"))) is None:
        return None
    at, partition, before = place
    return _with_range(ops, at, partition, start=Offset(random.randrange(before)))


@plants("stale-end")
def a_linearizable_list_is_stale(ops: History, random: Random) -> History | None:
    places = []
    for invoked, at, answer in listed(ops):
        if answer.linearizable:
            before = ops[:invoked]
            for partition in dict.fromkeys(r.partition for r in answer.ranges):
                ends = [r.end - 1 for _, _, a in listed(before) for r in a.ranges if r.partition == partition]
                greatest = max([*known_offsets(before, partition), *ends], default=-1)
                places += [(at, partition, greatest)] if greatest >= 0 else []
    if (place := choose(random, places)) is None:
        return None
    at, partition, greatest = place
    return _with_range(ops, at, partition, end=Offset(random.randint(0, greatest)))


def _committed_before(ops: History) -> list[tuple[int, TopicPartition, int]]:
    """Return reads of a group's offset: place, partition, greatest offset committed or read before them."""
    places = []
    for invoked, at in pairs(ops, "committed"):
        if at is None or ops[at].type != "ok":
            continue
        known: dict[TopicPartition, int] = {}
        for op in ops[:invoked]:
            if op.type == "ok" and isinstance(op.payload, GroupOffsets):
                known |= {p: max(o, known.get(p, -1)) for p, o in op.payload.offsets if o is not None}
        places += [(at, partition, floor) for partition, floor in known.items()]
    return places


def _with_committed(ops: History, at: int, partition: TopicPartition, offset: int | None) -> History:
    read = ops[at].payload
    assert isinstance(read, GroupOffsets)
    offsets = tuple((p, offset if p == partition else o) for p, o in read.offsets)
    return with_op(ops, at, ops[at]._replace(payload=read._replace(offsets=offsets)))


@plants("committed-went-back")
def a_group_goes_back(ops: History, random: Random) -> History | None:
    if (place := choose(random, [place for place in _committed_before(ops) if place[2] > 0])) is None:
        return None
    at, partition, floor = place
    return _with_committed(ops, at, partition, random.randrange(floor))


@plants("committed-went-back")
def a_group_forgets_its_offset(ops: History, random: Random) -> History | None:
    if (place := choose(random, _committed_before(ops))) is None:
        return None
    return _with_committed(ops, place[0], place[1], None)


@plants("phantom-commit")
def a_group_is_where_nobody_committed(ops: History, random: Random) -> History | None:
    places = [at for _, at in pairs(ops, "committed") if at is not None and ops[at].type == "ok"]
    if (at := choose(random, places)) is None:
        return None
    partition = random.choice([p for p, _ in ops[at].payload.offsets])
    return _with_committed(ops, at, partition, NEVER_SENT)


@plants("phantom-commit")
def a_failed_commit_is_read(ops: History, random: Random) -> History | None:
    """Mark the only commit of an offset that was read as failed, before the read or after it."""
    read = {
        place
        for op in ops
        if op.kind == "committed" and isinstance(op.payload, GroupOffsets)
        for place in op.payload.offsets
    }
    attempts: dict[tuple[TopicPartition, Offset | None], list[tuple[int, int | None]]] = {}
    for invoked, completed in pairs(ops, "commit"):
        for place in ops[invoked].payload.offsets:
            attempts.setdefault(place, []).append((invoked, completed))
    places = [tries[0] for place, tries in attempts.items() if place in read and len(tries) == 1]
    complete = [(invoked, completed) for invoked, completed in places if completed is not None]
    return None if (found := choose(random, complete)) is None else failing(ops, *found)
