"""Linearizability of registers: histories with a valid order pass, others are detected; undecided ones do not pass.

Small generated histories are checked against all orders there are; the zones and the search against each other."""

from itertools import permutations
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jepsen.checkers import Op, Recorder, Register, Verdict, check_history
from jepsen.checkers.history_checker import check_with
from jepsen.checkers.linearizability import Linearizability
from jepsen.checkers.order_search import search
from jepsen.checkers.registers import NEVER, Operation, RegisterOperations, State
from jepsen.checkers.zones import find_contradiction

R = "r"


class RegisterHistory:
    """History of one register; each operation has a process of its own unless given otherwise."""

    def __init__(self) -> None:
        self.ops: list[Op] = []
        self.recorder = Recorder(lambda: len(self.ops), self.ops.append)

    def begin(self, kind: str, value: State = None, expected: State = None, register: str = R) -> Op:
        return self.recorder.invoke(len(self.ops), kind, Register(register, value, expected))

    def end(self, invocation: Op, value: State = None) -> Op:
        return self.recorder.ok(invocation, Register(R, value) if invocation.kind == "read" else None)

    def write(self, value: State) -> Op:
        return self.end(self.begin("write", value))

    def cas(self, expected: State, value: State) -> Op:
        return self.end(self.begin("cas", value, expected))

    def read(self, value: State) -> Op:
        return self.end(self.begin("read"), value)

    def check(self, steps_max: int = 1_000_000) -> Linearizability:
        checker = Linearizability(steps_max=steps_max)
        check_with(checker, self.ops)
        return checker


def gather_operations(ops: list[Op]) -> RegisterOperations:
    """Return the operations on the register as the checker collects them."""
    checker = Linearizability()
    pending: dict[int, Op] = {}
    for op in ops:
        if op.type == "invoke":
            pending[op.process] = op
            if op.kind in checker.invocations:
                checker.on_invocation(op)
        else:
            checker.on_completion(pending[op.process], op)
    return checker._registers.get(R, RegisterOperations())


# generated histories


def draw_history(seed: int, *, unique: bool, has_cas: bool, mutations: int, length: int = 6) -> list[Op]:
    """Return sequential operations with widened, overlapping intervals, some without outcome or with a wrong answer."""
    random = Random(seed)
    held: State = None
    entries: list[tuple[float, str, int]] = []
    planned: list[tuple[str, State, State, str]] = []
    for number in range(random.randint(1, length)):
        kind = random.choice(("write", "read", "cas") if has_cas else ("write", "read"))
        value: State = number + 1 if unique else random.randint(1, 2)
        expected: State = None
        outcome = random.choices(("ok", "info", "open", "fail"), (8, 2, 1, 1))[0]
        happens = outcome == "ok" or (outcome in ("info", "open") and random.random() < 0.5)
        if kind == "cas":
            expected = held if random.random() < 0.7 else random.choice((None, 1, 2))
            outcome = "fail" if outcome == "ok" and expected != held else outcome
        if kind == "read":
            value = held
        elif happens and (kind == "write" or expected == held):
            held = value
        planned.append((kind, value, expected, outcome))
        entries.append((number - random.choice((0, 0.1, 1.2, 3.3)), "begin", number))
        entries.append((number + random.choice((0.01, 0.1, 1.2, 3.3)), "end", number))
    for _ in range(mutations):
        at = random.randrange(len(planned))
        kind, value, expected, outcome = planned[at]
        changed = random.choice((None, 1, 2, 3))
        planned[at] = (kind, changed, expected, outcome) if kind == "read" else (kind, value, changed, outcome)
    return record_history(planned, entries)


def record_history(planned: list[tuple[str, State, State, str]], entries: list[tuple[float, str, int]]) -> list[Op]:
    """Return the history of planned operations whose begins and ends are sorted by the entries' times."""
    ops: list[Op] = []
    recorder = Recorder(lambda: len(ops), ops.append)
    invocations: dict[int, Op] = {}
    for _, what, number in sorted(entries):
        kind, value, expected, outcome = planned[number]
        if what == "begin":
            asked = Register(R) if kind == "read" else Register(R, value, expected if kind == "cas" else None)
            invocations[number] = recorder.invoke(number, kind, asked)
        elif outcome == "ok":
            recorder.ok(invocations[number], Register(R, value) if kind == "read" else None)
        elif outcome != "open":
            (recorder.fail if outcome == "fail" else recorder.info)(invocations[number])
    return ops


def has_valid_order(operations: list[Operation]) -> bool:
    """Try all orders of the certain operations together with any subset of the uncertain ones."""
    certain = [each for each in operations if each.completed < NEVER]
    perhaps = [each for each in operations if each.completed == NEVER]
    chosen = ([each for bit, each in enumerate(perhaps) if bits >> bit & 1] for bits in range(1 << len(perhaps)))
    return any(is_legal(order) for some in chosen for order in permutations(certain + some))


def is_legal(order: tuple[Operation, ...]) -> bool:
    """Return whether this order keeps real time and explains every value that was read or compared."""
    held: State = None
    latest = -1
    for operation in order:
        if operation.completed < latest:
            return False  # it had ended before one that stands before it began
        latest = max(latest, operation.invoked)
        if operation.kind == "read" and operation.value != held:
            return False
        if operation.kind == "cas" and operation.expected != held:
            return False
        held = held if operation.kind == "read" else operation.value
    return True


@settings(max_examples=240)
@given(seed=st.integers(0, 2**32), unique=st.booleans(), has_cas=st.booleans(), mutations=st.integers(0, 2))
def test_the_verdict_equals_a_search_through_all_orders(seed: int, unique: bool, has_cas: bool, mutations: int) -> None:
    gathered = gather_operations(draw_history(seed, unique=unique, has_cas=has_cas, mutations=mutations))
    expected = has_valid_order(list(gathered.operations.values()))
    searched = search(gathered)
    assert searched.is_decided
    assert (searched.contradiction is None) == expected, searched
    if gathered.is_plain:
        assert (find_contradiction(gathered) is None) == expected
    assert expected or mutations, "a history generated in an order has one"


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32), unique=st.booleans(), has_cas=st.booleans())
def test_a_long_history_with_a_valid_order_passes(seed: int, unique: bool, has_cas: bool) -> None:
    ops = draw_history(seed, unique=unique, has_cas=has_cas, mutations=0, length=120)
    checker = Linearizability()
    assert not check_with(checker, ops).counts
    assert not checker.undecided


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32), mutations=st.integers(0, 2))
def test_zones_and_search_agree_on_longer_histories(seed: int, mutations: int) -> None:
    gathered = gather_operations(draw_history(seed, unique=True, has_cas=False, mutations=mutations, length=60))
    assert (search(gathered).contradiction is None) == (find_contradiction(gathered) is None)


# by hand


def test_a_stale_read_is_reported_with_the_contradiction() -> None:
    history = RegisterHistory()
    history.write(1)
    first = history.read(1)
    second = history.write(2)
    late = history.begin("read")
    history.end(late, 1)
    (anomaly,) = history.check().findings.anomalies
    assert anomaly.kind == "not-linearizable"
    assert anomaly.what == "register r: it held 1 from #1 to #6, and 2 at some moment from #4 to #5"
    assert {second, late} < set(anomaly.ops)
    assert first not in anomaly.ops


@pytest.mark.parametrize("is_plain", [True, False])
def test_values_that_were_never_written_are_reported(is_plain: bool) -> None:
    history = RegisterHistory()
    if not is_plain:
        history.cas(None, 5)
    refused = history.recorder.fail(history.begin("write", 7))
    read = history.read(7)
    (anomaly,) = history.check().findings.anomalies
    assert "definitely failed" in anomaly.what
    assert {refused, read} < set(anomaly.ops)


def test_an_unknown_write_may_take_effect_late_but_only_once() -> None:
    history = RegisterHistory()
    history.recorder.info(history.begin("write", 1))
    history.recorder.crash(history.begin("cas", 9, 8).process)
    history.write(2)
    history.read(2)
    history.read(1)
    assert not history.check().findings.counts
    history.write(3)
    history.read(3)
    history.read(1)
    assert history.check().findings.counts == {"not-linearizable": 1}


def test_a_compare_and_swap_needs_the_expected_value() -> None:
    history = RegisterHistory()
    history.cas(None, 1)
    one, other = history.begin("cas", 2, 1), history.begin("cas", 3, 1)
    history.end(one)
    assert not history.check().findings.counts
    last = history.end(other)
    (anomaly,) = history.check().findings.anomalies
    assert last in anomaly.ops
    assert "2 of 3 operations have an order" in anomaly.what


def test_registers_are_checked_separately_and_a_limit_leaves_one_undecided() -> None:
    history = RegisterHistory()
    for register in ("hard", "easy"):
        history.recorder.ok(history.begin("write", 1, register=register))
    begun = [history.begin("write", value % 4, register="hard") for value in range(16)]
    for invocation in begun:
        history.recorder.ok(invocation)
    for value in range(4):
        history.recorder.ok(history.begin("read", register="hard"), Register("hard", value))
    history.recorder.ok(history.begin("read", register="easy"), Register("easy", 2))
    checker = history.check(steps_max=1000)
    assert checker.undecided == ["hard"]
    assert checker.findings.counts == {"not-linearizable": 1}
    verdict = check_history(history.ops)
    assert verdict.undecided == ()
    assert verdict.counts == {"not-linearizable": 2}, "with time enough it is decided"


def test_an_undecided_history_is_not_clean() -> None:
    verdict = Verdict((), {}, 3, 0, ("r",))
    assert not verdict.is_clean()
    assert "linearizable: r" in str(verdict)
    assert Verdict((), {}, 3, 0).is_clean()
