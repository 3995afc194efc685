"""The replay window, compared with a set of all numbers."""

from hypothesis import given
from hypothesis import strategies as st

from raftlog.membership.replay import WINDOW, ReplayGuard, SenderKey
from raftlog.types import NodeId

ONE, OTHER = SenderKey(NodeId(1), b"disk one"), SenderKey(NodeId(1), b"disk two")


def test_a_number_is_accepted_once() -> None:
    guard = ReplayGuard()
    assert guard.accept(ONE, 1, 5)
    assert not guard.accept(ONE, 1, 5)


def test_reordered_datagrams_are_accepted() -> None:
    guard = ReplayGuard()
    assert [guard.accept(ONE, 1, number) for number in (3, 1, 2, 2, 3, 4)] == [True, True, True, False, False, True]


def test_numbers_older_than_the_window_are_refused() -> None:
    guard = ReplayGuard()
    assert guard.accept(ONE, 1, WINDOW)
    assert guard.accept(ONE, 1, 1)
    assert not guard.accept(ONE, 1, 0)


def test_a_jump_beyond_the_window_clears_it() -> None:
    guard = ReplayGuard()
    guard.accept(ONE, 1, 7)
    assert guard.accept(ONE, 1, 1 << 63)
    assert not guard.accept(ONE, 1, 7)
    assert guard.accept(ONE, 1, (1 << 63) - 1)


def test_a_new_boot_epoch_has_a_new_window_and_ends_the_old_one() -> None:
    guard = ReplayGuard()
    guard.accept(ONE, 1, 9)
    assert guard.accept(ONE, 2, 1)
    assert guard.is_old_boot_epoch(ONE, 1)
    assert not guard.is_old_boot_epoch(ONE, 2)


def test_each_disk_of_a_node_id_has_its_own_boot_epochs() -> None:
    guard = ReplayGuard()
    guard.accept(ONE, 7, 9)
    assert not guard.is_old_boot_epoch(OTHER, 1)
    assert guard.accept(OTHER, 1, 9)


def test_senders_are_bounded_and_the_longest_silent_is_removed() -> None:
    guard = ReplayGuard(senders_max=2)
    first, second, third = (SenderKey(NodeId(node), b"disk 123") for node in (1, 2, 3))
    for sender in (first, second, first, third):
        guard.accept(sender, 1, 10 + len(guard))
    assert len(guard) == 2
    assert guard.is_old_boot_epoch(first, 0)
    assert not guard.is_old_boot_epoch(second, 0)


@given(st.lists(st.integers(0, 3 * WINDOW), max_size=60), st.integers(0, 1 << 62))
def test_each_number_within_the_window_is_accepted_exactly_once(steps: list[int], base: int) -> None:
    guard, taken, highest = ReplayGuard(), set[int](), -1
    for step in steps:
        number = base + step
        is_fresh = number not in taken and number > highest - WINDOW
        assert guard.accept(ONE, 1, number) == is_fresh
        if is_fresh:
            taken.add(number)
        highest = max(highest, number)
