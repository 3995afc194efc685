"""Mutants of memory budgets: shares of one total, waiting owners, and charged answers."""

from typing import Final

from jepsen.mutants.mutant import Mutant

_BUDGET: Final = ("tests/runtime/test_memory_budget.py",)
_FRAMES: Final = (*_BUDGET, "tests/rpc/test_memory_budget.py")
_ANSWERS: Final = ("tests/api/test_answer_memory.py",)


def _memory(name: str, place: str, old: str, new: str, tests: tuple[str, ...], equivalent: str = "") -> Mutant:
    """Return a mutant at `place`, which is module:function below `raftlog`."""
    module, _, function = place.partition(":")
    return Mutant(f"memory-{name}", f"raftlog/{module}.py", function, old, new, tests, equivalent)


MUTANTS: Final[tuple[Mutant, ...]] = (
    # one share
    _memory(
        "small-requests-overtake",
        "runtime/memory_budget:MemoryBudget.take",
        "if not self._waiting and self._try_grant(owner, size):",
        "if self._try_grant(owner, size):",
        _BUDGET,
    ),
    _memory(
        "requests-that-do-not-wait-overtake",
        "runtime/memory_budget:MemoryBudget.try_take",
        "self._waiting or ",
        "",
        _BUDGET,
    ),
    _memory(
        "large-request-never-granted",
        "runtime/memory_budget:MemoryBudget.try_take",
        "(self.used and not self._fits(size))",
        "not self._fits(size)",
        _BUDGET,
    ),
    _memory(
        "reserve-for-all",
        "runtime/memory_budget:MemoryBudget.take",
        "if is_small and ",
        "if ",
        _BUDGET,
    ),
    _memory(
        "reserve-is-not-returned",
        "runtime/memory_budget:MemoryBudget.release",
        "self._reserve_used -= self._held_of_reserve.pop(owner, 0)",
        "self._held_of_reserve.pop(owner, 0)",
        _BUDGET,
    ),
    _memory(
        "oldest-owner-waits",
        "runtime/memory_budget:MemoryBudget._try_grant",
        " and not self._is_oldest(owner)",
        "",
        _FRAMES,
    ),
    _memory(
        "part-given-back-serves-none",
        "runtime/memory_budget:MemoryBudget.release_part",
        "self._serve()",
        "pass",
        _BUDGET,
    ),
    _memory(
        "part-given-back-takes-the-age",
        "runtime/memory_budget:MemoryBudget.release_part",
        "self._held[owner] = left",
        "self._held.pop(owner)\n        self._held[owner] = left",
        _BUDGET,
    ),
    _memory(
        "place-in-line-given-up-serves-none",
        "runtime/memory_budget:MemoryBudget.stop_waiting",
        "self._serve()",
        "pass",
        _BUDGET,
    ),
    _memory(
        "ended-owner-is-served",
        "runtime/memory_budget:MemoryBudget._serve",
        "waiting in self._waiting and ",
        "",
        _BUDGET,
    ),
    _memory(
        "shares-above-the-total",
        "runtime/memory_budget:MemoryShares.divide",
        "total - frames - requests",
        "total - frames",
        _BUDGET,
    ),
    # answers
    _memory(
        "small-answers-charged",
        "api/http/server/answer_memory:AnswerMemory.try_add",
        "after - self._charged if after > UNCHARGED_BYTES else 0",
        "after - self._charged",
        _ANSWERS,
    ),
    _memory(
        "only-the-new-part-charged",
        "api/http/server/answer_memory:AnswerMemory.try_add",
        "after - self._charged if",
        "size if",
        _ANSWERS,
    ),
    _memory(
        "single-large-answer-refused",
        "api/http/server/answer_memory:AnswerMemory.try_add",
        "self._is_forced or self._budget.used == self._charged",
        "self._is_forced",
        _ANSWERS,
    ),
    _memory(
        "forced-answer-refused",
        "api/http/server/answer_memory:AnswerMemory.try_add",
        "self._is_forced or ",
        "",
        _ANSWERS,
    ),
    _memory(
        "one-answer-takes-all",
        "api/http/server/answer_memory:AnswerMemory.room",
        "self._budget.free // 2",
        "self._budget.free",
        _ANSWERS,
    ),
    _memory(
        "room-below-one-byte",
        "api/http/server/answer_memory:AnswerMemory.room",
        "max(1, min(wanted, self._budget.free // 2))",
        "min(wanted, self._budget.free // 2)",
        _ANSWERS,
    ),
    _memory(
        "small-answer-without-room",
        "api/http/server/answer_memory:AnswerMemory.room",
        "if wanted <= UNCHARGED_BYTES:",
        "if False:",
        _ANSWERS,
    ),
    _memory(
        "promised-twice",
        "api/http/server/answer_memory:AnswerMemory.reserve",
        "(budget.free - budget.promised) // 2",
        "budget.free // 2",
        _ANSWERS,
    ),
    _memory(
        "promise-outlives-its-answer",
        "api/http/server/answer_memory:AnswerMemory.release",
        "self.end_reservation()",
        "pass",
        _ANSWERS,
    ),
    _memory(
        "refusals-not-counted",
        "api/http/server/answer_memory:AnswerMemory.add",
        "budget.refused += 1",
        "pass",
        _ANSWERS,
    ),
    _memory(
        "released-answer-keeps-its-size",
        "api/http/server/answer_memory:AnswerMemory.release",
        "self.size = self._charged = 0",
        "pass",
        _ANSWERS,
    ),
)
