"""Bounded search for an order of a register's operations that agrees with their answers and with real time.

The algorithm is that of Wing and Gong (1993) with the memory of Lowe (Testing for linearizability, 2017). It searches
depth first through *configurations*: sets of operations that have taken effect, with the value after them. Each
configuration is entered once. Operations that must take effect are sorted by invocation. So the set consists of all
operations below `base`, and of a `window` of bits from `base` on that is as wide as operations overlap. A configuration
is small even in a long history.

These rules save steps:

- a read of the present value takes effect at once, because it changes nothing;
- a value that no operation observes equals any other such value (`_UNOBSERVED`), and its write may directly precede any
  other write;
- of equal operations the one that ends first, and of those of unknown outcome the one that began first;
- an operation of unknown outcome takes effect only for an operation that observes its value at once;
- if only one write can explain an answer, it took effect before that answer, and the observer after the write.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from jepsen.checkers.history import CAS, READ, WRITE
from jepsen.checkers.registers import NEVER, Contradiction, Operation, RegisterOperations, State

STEPS_MAX: Final = 10_000_000
"""Largest number of steps of one search; about a million steps take a second."""
BYTES_MAX: Final = 512 << 20
_CONFIGURATION_BYTES: Final = 1000
"""Approximate memory of one configuration, in bytes, without its bits."""


class _Unobserved(NamedTuple):
    """Value of a register after a write whose value no operation reads."""


_UNOBSERVED: Final = _Unobserved()
_Held = State | _Unobserved


class SearchResult(NamedTuple):
    """Result of a search; `is_decided` is false when it reached a limit first."""

    is_decided: bool
    contradiction: Contradiction | None
    steps_taken: int = 0


class _Step:
    """Operation in a search; its interval may be narrower than that of the recorded operation."""

    __slots__ = ("completed", "expects", "invoked", "operation", "writes")

    def __init__(self, operation: Operation) -> None:
        self.operation: Final = operation
        self.invoked, self.completed = operation.invoked, operation.completed
        self.expects: _Held = operation.value if operation.kind == READ else operation.expected
        self.writes: _Held = operation.value

    @property
    def is_observer(self) -> bool:
        """Whether the operation reads the register: a read or a compare-and-set."""
        return self.operation.kind != WRITE

    @property
    def effect(self) -> tuple[str, _Held, _Held]:
        """Key that is equal for steps with the same effect and answer."""
        return self.operation.kind, self.writes, self.expects

    def is_possible_after(self, held: _Held) -> bool:
        """Return whether the operation may change a register that holds this value."""
        return self.operation.kind == WRITE or (self.operation.kind == CAS and self.expects == held)

    @property
    def is_unobserved(self) -> bool:
        """Whether the operation is a write of a value that no operation reads."""
        return self.writes is _UNOBSERVED and self.operation.kind == WRITE


class _Configuration(NamedTuple):
    """State of the search: operations that took effect, as bit sets, and the value of the register."""

    base: int
    window: int
    used: int
    """Bits of the operations of unknown outcome that took effect."""
    held: _Held


def search(gathered: RegisterOperations, steps_max: int = STEPS_MAX) -> SearchResult:
    """Search for an order within `steps_max` steps and `BYTES_MAX` of memory."""
    steps = [_Step(operation) for operation in gathered.operations.values()]
    observed = _collect_observations(steps)
    for step in steps:
        if step.operation.kind == READ and step.writes not in observed.written and step.writes is not None:
            return SearchResult(True, gathered.explain_unwritten_read(step.operation))
    too_early = _narrow(steps, observed)
    if too_early is not None:
        return SearchResult(True, too_early)
    for step in steps:
        if step.operation.kind != READ and step.writes not in observed.asked:
            step.writes = _UNOBSERVED
    required = sorted((step for step in steps if step.completed < NEVER), key=lambda step: step.invoked)
    optional = [step for step in steps if step.completed == NEVER and step.writes is not _UNOBSERVED]
    return _Search(required, optional, steps_max).run(None if None in observed.asked else _UNOBSERVED)


class _Observations(NamedTuple):
    """Operations that wrote each value, and the time at which the value was first read."""

    written: dict[_Held, list[_Step]]
    shown: dict[_Held, int]
    asked: set[_Held]
    """Values expected by operations that took effect, or may have."""


def _collect_observations(steps: list[_Step]) -> _Observations:
    """Return the writes of each value, the values that operations read, and the earliest completed read of each."""
    found = _Observations({}, {}, set())
    for step in steps:
        if step.operation.kind != READ:
            found.written.setdefault(step.writes, []).append(step)
        if step.is_observer:
            found.asked.add(step.expects)
            found.shown[step.expects] = min(found.shown.get(step.expects, NEVER), step.completed)
    return found


def _narrow(steps: list[_Step], observed: _Observations) -> Contradiction | None:
    """Narrow the time intervals of operations whose answer only one write explains; return a contradiction, or None.

    The value None is not narrowed, because it can also be the initial value."""
    sources: dict[_Held, _Step] = {
        value: by[0] for value, by in observed.written.items() if len(by) == 1 and value is not None
    }
    for value, source in sources.items():
        source.completed = min(source.completed, observed.shown.get(value, NEVER))
    for step in steps:
        source_of = sources.get(step.expects) if step.is_observer else None
        if source_of is None:
            continue
        if step.completed < source_of.invoked:
            what = f"{step.operation} ended before the {source_of.operation} began"
            return Contradiction(what, (*step.operation.proof, source_of.operation.invocation))
        step.invoked = max(step.invoked, source_of.invoked)
    return None


class _Search:
    """Depth-first search for a linearizable order of operations, with limits."""

    def __init__(self, required: list[_Step], optional: list[_Step], steps_max: int) -> None:
        """Prepare a search for an order of all `required` operations.

        Those in `optional` have an unknown outcome and need not take effect."""
        self._required, self._optional, self._steps_max = required, optional, steps_max
        self._entered: set[_Configuration] = set()
        self._steps_taken = self._bytes = 0
        self._farthest = -1
        self._stuck: tuple[_Step | None, _Step] | None = None
        """Last step of the longest order, and the step that does not fit after it."""

    def run(self, held: _Held) -> SearchResult:
        """Search from a register that contains `held`.

        Decided without a contradiction if an order exists, with one if none exists; undecided at a limit."""
        begin = self._settle(0, 0, 0, held)
        if begin is None:
            return SearchResult(True, None, self._steps_taken)
        stack = [self._enter(begin, None)]
        while stack:
            following = next(stack[-1], None)
            if following is None:
                stack.pop()
                continue
            configuration, step = following
            if configuration is None:
                return SearchResult(True, None, self._steps_taken)
            if configuration in self._entered:
                continue
            if self._steps_taken >= self._steps_max or self._bytes >= BYTES_MAX:
                return SearchResult(False, None, self._steps_taken)
            stack.append(self._enter(configuration, step))
        return SearchResult(True, self._build_contradiction(), self._steps_taken)

    def _enter(
        self, configuration: _Configuration, by: _Step | None
    ) -> Iterator[tuple[_Configuration | None, _Step | None]]:
        """Record a configuration and the step `by` that led to it (None: the first), and return its next steps."""
        self._entered.add(configuration)
        self._bytes += _CONFIGURATION_BYTES + (configuration.window.bit_length() + configuration.used.bit_length()) // 8
        self._record_progress(configuration, by)
        return self._next_steps(configuration)

    def _next_steps(self, configuration: _Configuration) -> Iterator[tuple[_Configuration | None, _Step]]:
        """Yield each possible next step with the configuration after it; None in its place if no operation is left."""
        places, until = self._find_open_places(configuration.base, configuration.window)
        tried = set()
        for place in sorted(places, key=lambda place: self._required[place].completed):
            step = self._required[place]
            if step.effect not in tried and step.is_possible_after(configuration.held):
                tried.add(step.effect)
                is_write = step.operation.kind == WRITE
                before = (
                    self._add_unobserved(configuration.base, configuration.window) if is_write else configuration.window
                )
                window = before | 1 << (place - configuration.base)
                yield self._settle(configuration.base, window, configuration.used, step.writes), step
        for number, step in enumerate(self._optional):
            if (
                step.effect not in tried
                and step.is_possible_after(configuration.held)
                and self._may_use_optional(number, configuration.used, until)
            ):
                tried.add(step.effect)
                used = configuration.used | 1 << number
                if self._is_observable(configuration.base, configuration.window, used, step.writes):
                    yield self._settle(configuration.base, configuration.window, used, step.writes), step

    def _may_use_optional(self, number: int, used: int, until: int) -> bool:
        """Return whether the optional operation was not used yet, and was invoked by `until`."""
        return not used >> number & 1 and self._optional[number].invoked <= until

    def _find_open_places(self, base: int, window: int) -> tuple[list[int], int]:
        """Return the indexes of required operations that may be next, and the time until which any may begin."""
        places, until = [], NEVER
        for place in range(base, len(self._required)):
            step = self._required[place]
            if step.invoked > until:
                break
            if not window >> (place - base) & 1:
                places.append(place)
                until = min(until, step.completed)
        self._steps_taken += place - base + 1 if self._required else 0
        return places, until

    def _add_unobserved(self, base: int, window: int) -> int:
        """Return the window with all unobserved writes that may precede the next operation."""
        while True:
            places, _ = self._find_open_places(base, window)
            before = window
            for place in places:
                if self._required[place].is_unobserved:
                    window |= 1 << (place - base)
            if window == before:
                return window

    def _settle(self, base: int, window: int, used: int, held: _Held) -> _Configuration | None:
        """Return the configuration after all steps that change nothing; None if no operation is left."""
        while True:
            before = window
            for place in self._find_open_places(base, window)[0]:
                step = self._required[place]
                fits = step.operation.kind == READ and step.expects == held
                if fits or (held is _UNOBSERVED and step.is_unobserved):
                    window |= 1 << (place - base)
            if window == before:
                break
        while window & 1:
            base, window = base + 1, window >> 1
        return None if base == len(self._required) else _Configuration(base, window, used, held)

    def _is_observable(self, base: int, window: int, used: int, held: _Held) -> bool:
        """Return whether an operation can observe the value immediately."""
        places, until = self._find_open_places(base, window)
        if any(self._required[place].is_observer and self._required[place].expects == held for place in places):
            return True
        return any(
            step.is_observer and step.expects == held and self._may_use_optional(number, used, until)
            for number, step in enumerate(self._optional)
        )

    def _record_progress(self, configuration: _Configuration, by: _Step | None) -> None:
        """Record the step `by` and the step that must follow, if more required operations than before have an order."""
        reached = configuration.base + configuration.window.bit_count()
        if reached > self._farthest:
            self._farthest = reached
            places, _ = self._find_open_places(configuration.base, configuration.window)
            self._stuck = by, min((self._required[place] for place in places), key=lambda step: step.completed)

    def _build_contradiction(self) -> Contradiction:
        """Return the longest order in words, with the entries of its last operation and of the next one."""
        assert self._stuck is not None, "a search enters one configuration at least"
        by, following = self._stuck
        after = "at the beginning" if by is None else f"after the {by.operation}"
        what = f"{self._farthest} of {len(self._required)} operations have an order; {after}, the {following.operation}"
        return Contradiction(f"{what} does not fit", (*(by.operation.proof if by else ()), *following.operation.proof))
