"""`MemoryBudget` alone: order of waiting owners, age of owners, and shares of the total."""

import pytest

from raftlog.runtime.memory_budget import MemoryBudget, MemoryShares


def _fail_on_call() -> None:
    raise AssertionError("nothing was waited for")


def test_a_small_request_does_not_overtake_a_waiting_one() -> None:
    """Otherwise a stream of small requests would delay a large one forever."""
    budget = MemoryBudget(10)
    granted: list[str] = []
    assert budget.take("a", 6, _fail_on_call)
    assert not budget.take("b", 5, lambda: granted.append("b"))
    assert not budget.take("c", 1, lambda: granted.append("c"))
    assert not budget.try_take("d", 1)
    budget.stop_waiting("b")
    assert granted == ["c"], "it fits, and nothing is in front of it any more"
    assert (budget.used, budget.waiting_count) == (7, 0)
    assert budget.try_take("d", 1)


def test_a_request_of_any_size_is_granted_while_nothing_is_used() -> None:
    budget = MemoryBudget(10)
    assert budget.try_take("a", 11)
    assert not budget.try_take("b", 1)
    budget.release("a")
    assert budget.try_take("b", 10)
    assert not budget.try_take("c", 1)


def test_a_partial_release_serves_others_and_keeps_the_age_of_its_owner() -> None:
    budget = MemoryBudget(10)
    granted: list[str] = []
    assert budget.take("a", 5, _fail_on_call)
    assert budget.take("b", 5, _fail_on_call)
    assert not budget.take("c", 3, lambda: granted.append("c"))
    budget.release_part("a", 3)
    assert granted == ["c"]
    assert budget.take("a", 30, _fail_on_call)
    assert not budget.take("b", 1, _fail_on_call)


def test_an_owner_released_during_service_gets_nothing() -> None:
    budget = MemoryBudget(10)
    assert budget.take("a", 10, _fail_on_call)
    assert not budget.take("b", 3, lambda: budget.release("c"))
    assert not budget.take("c", 3, _fail_on_call)
    budget.release("a")
    assert (budget.used, budget.waiting_count) == (3, 0)


def test_small_requests_have_a_reserve() -> None:
    budget = MemoryBudget(10, 3)
    granted: list[str] = []
    assert budget.take("large", 7, _fail_on_call)
    assert not budget.take("other", 1, lambda: granted.append("other"))
    assert not budget.try_take("third", 1)
    assert budget.take("small", 2, _fail_on_call, is_small=True)
    assert budget.take("small", 1, _fail_on_call, is_small=True)
    assert not budget.take("late", 1, lambda: granted.append("late"), is_small=True), "the reserve is used up"
    assert (budget.used, budget.free) == (10, 0)
    budget.release("small")
    assert granted == ["late"], "the reserve serves small owners only"
    assert budget.take("next", 2, _fail_on_call, is_small=True)
    budget.release_part("next", 1)
    assert budget.take("further", 1, _fail_on_call, is_small=True)
    budget.release("large")
    assert granted == ["late", "other"]


def test_small_requests_beyond_the_reserve_take_the_memory_of_all() -> None:
    budget = MemoryBudget(10, 3)
    assert budget.take("a", 3, _fail_on_call, is_small=True)
    assert budget.take("b", 7, _fail_on_call, is_small=True)
    assert not budget.take("c", 1, _fail_on_call)
    budget.stop_waiting("c")
    budget.release("b")
    assert budget.try_take("d", 7)
    assert not budget.try_take("e", 1)


@pytest.mark.parametrize("total", [1, 7, 1 << 20, (1 << 20) + 5])
def test_shares_add_up_to_the_total(total: int) -> None:
    shares = MemoryShares.divide(total)
    assert sum(shares) == total
    assert shares.frames <= shares.requests <= shares.answers
