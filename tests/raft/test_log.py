"""The tail, the log in memory and the durable index, each compared with a naive twin."""

from hypothesis import given
from hypothesis import strategies as st

from jepsen.simulation.memory_log import MemoryLog
from raftlog.raft.durability import Durability
from raftlog.raft.entry import Entry, EntryId, EntryKind
from raftlog.raft.tail import LogTail
from raftlog.types import Index, Term

_steps = st.lists(
    st.tuples(st.sampled_from(["append", "cut", "take", "trim", "read"]), st.integers(0, 6), st.integers(0, 6)),
    max_size=80,
)


def _entry(index: int, term: int) -> Entry:
    return Entry(Index(index), Term(term), EntryKind.DATA, index % 5, f"{index}@{term}")


@given(_steps)
def test_the_tail_equals_a_list(steps: list[tuple[str, int, int]]) -> None:
    """The tail over a stored log reads as a list of entries after any cut, append, hand-over and trim."""
    stored = MemoryLog()
    tail = LogTail(stored)
    twin: dict[int, Entry] = {}
    boundary, term = EntryId(Index(0), Term(0)), 1
    for what, amount, other in steps:
        last = max(twin, default=boundary.index)
        if what == "append" and amount:
            term += other // 5
            fresh = [_entry(last + 1 + at, term) for at in range(amount)]
            tail.append(fresh)
            twin.update({entry.index: entry for entry in fresh})
        elif what == "cut" and last - amount >= boundary.index and amount:
            tail.cut_to(Index(last - amount))
            twin = {index: entry for index, entry in twin.items() if index <= last - amount}
            term += 1
        elif what == "take":
            cut_to, entries = tail.take()
            if cut_to is not None:
                stored.cut_to(cut_to)
            stored.append(entries)
            assert stored.entries_from_start() == list(twin.values())
        elif what == "trim" and not tail.is_changed and last - amount > boundary.index:
            boundary = EntryId(Index(last - amount), twin[last - amount].term)
            stored.trim_to(boundary.index)
            twin = {index: entry for index, entry in twin.items() if index > boundary.index}
        elif what == "read" and last - amount > boundary.index:
            first = last - amount
            _check_read(
                list(tail.entries(Index(first), other + 1, 7)), [twin[i] for i in range(first, last + 1)], other
            )
        last = max(twin, default=boundary.index)
        assert tail.last_id == EntryId(Index(last), twin[last].term if twin else boundary.term)
        for index, entry in twin.items():
            assert tail.term_at(Index(index)) == entry.term
            assert tail.has_entry(EntryId(entry.index, entry.term))
        for wanted in range(1, term + 1):
            expected = max((i for i, entry in twin.items() if entry.term <= wanted), default=boundary.index)
            assert tail.last_index_of_term(tail.last_index, Term(wanted)) == expected


def test_the_tail_hides_cut_entries_until_the_hand_over() -> None:
    stored = MemoryLog([_entry(index, 1) for index in range(1, 6)])
    tail = LogTail(stored)
    tail.cut_to(Index(2))
    tail.append([_entry(3, 2), _entry(4, 2), _entry(5, 3)])
    assert [tail.term_at(Index(index)) for index in range(1, 6)] == [1, 1, 2, 2, 3]
    assert [entry.term for entry in tail.entries(Index(3), 10, 100)] == [2, 2, 3]
    assert stored.term_at(Index(3)) == 1


def _check_read(read: list[Entry], expected: list[Entry], other: int) -> None:
    """Check that a read returns at least one entry, in order and within bounds; it may stop at the hand-over."""
    assert read
    assert read == expected[: len(read)]
    assert len(read) <= other + 1
    assert len(read) == 1 or sum(entry.size_bytes for entry in read) <= 7


@given(st.lists(st.tuples(st.sampled_from(["append", "cut", "hand", "durable"]), st.integers(1, 6))))
def test_durability_equals_a_naive_twin(steps: list[tuple[str, int]]) -> None:
    """The twin stores the Ready of each entry: entries before the first gap are durable."""
    durability = Durability(Index(0))
    brought: list[int] = []
    handed: list[int] = []
    durable = 0
    has_changed = False
    for what, amount in steps:
        if what == "append":
            handed += [0] * amount
            has_changed = True
        elif what == "cut":
            del handed[max(0, len(handed) - amount) :]
            durability.cut_to(Index(len(handed)))
            has_changed = True
        elif what == "hand":
            number = durability.hand_over(Index(len(handed)), has_changed)
            handed = [ready or number for ready in handed]
            has_changed = False
        else:
            durable = min(durability.number, durable + amount)
            durability.advance_durable_index(durable)
        brought = handed
        assert durability.durable_index == _reached(brought, durable)


def _reached(brought: list[int], number: int) -> int:
    """Return the number of leading entries in Readys up to `number` (0: not handed over yet)."""
    return next((at for at, ready in enumerate(brought) if not 0 < ready <= number), len(brought))


def test_the_sync_of_cut_bytes_does_not_cover_later_ones() -> None:
    """R17, R44: an index that was cut and appended again is durable only after a sync of its new bytes."""
    durability = Durability(Index(0))
    first = durability.hand_over(Index(5), True)
    durability.cut_to(Index(2))
    second = durability.hand_over(Index(5), True)
    durability.advance_durable_index(first)
    assert durability.durable_index == 2
    durability.advance_durable_index(second)
    assert durability.durable_index == 5
