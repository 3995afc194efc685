"""`MemoryBudget` alone: order among owners that wait, age of owners, and the parts of one total."""

import pytest

from raftlog.runtime.memory_budget import MemoryBudget, MemoryShares


def _no_call() -> None:
    raise AssertionError("nothing was waited for")


def test_a_small_request_does_not_overtake_one_that_waits() -> None:
    """Otherwise a stream of small ones would keep a large one waiting for ever."""
    budget = MemoryBudget(10)
    granted: list[str] = []
    assert budget.take("a", 6, _no_call)
    assert not budget.take("b", 5, lambda: granted.append("b"))
    assert not budget.take("c", 1, lambda: granted.append("c"))
    assert not budget.maybe_take("d", 1)
    budget.stop_waiting("b")
    assert granted == ["c"], "it fits, and nothing is in front of it any more"
    assert (budget.used, budget.waiting_count) == (7, 0)
    assert budget.maybe_take("d", 1)


def test_an_owner_that_asks_without_waiting_gets_anything_while_nothing_is_used() -> None:
    budget = MemoryBudget(10)
    assert budget.maybe_take("a", 11)
    assert not budget.maybe_take("b", 1)
    budget.release("a")
    assert budget.maybe_take("b", 10)
    assert not budget.maybe_take("c", 1)


def test_a_part_that_is_given_back_serves_others_and_its_owner_stays_the_oldest() -> None:
    budget = MemoryBudget(10)
    granted: list[str] = []
    assert budget.take("a", 5, _no_call)
    assert budget.take("b", 5, _no_call)
    assert not budget.take("c", 3, lambda: granted.append("c"))
    budget.release_part("a", 3)
    assert granted == ["c"]
    assert budget.take("a", 30, _no_call)
    assert not budget.take("b", 1, _no_call)


def test_an_owner_that_another_one_ends_while_it_is_served_gets_nothing() -> None:
    budget = MemoryBudget(10)
    assert budget.take("a", 10, _no_call)
    assert not budget.take("b", 3, lambda: budget.release("c"))
    assert not budget.take("c", 3, _no_call)
    budget.release("a")
    assert (budget.used, budget.waiting_count) == (3, 0)


@pytest.mark.parametrize("total", [1, 7, 1 << 20, (1 << 20) + 5])
def test_the_shares_are_the_whole(total: int) -> None:
    shares = MemoryShares.of(total)
    assert sum(shares) == total
    assert shares.frames <= shares.requests <= shares.answers
