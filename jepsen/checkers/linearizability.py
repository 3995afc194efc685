"""Checker of linearizable registers: one order of all operations agrees with every answer and with real time.

`not-linearizable` is reported once for a register, with the entries that contradict one another. Each register is
checked separately, at the end (Horn and Kroening, Faster linearizability checking via P-compositionality, 2015). If
values identify their writes, `zones` checks it; otherwise `order_search` searches for an order, within limits. If the
search reaches a limit, the register is `undecided`, which does not mean that it is linearizable.

Memory: all operations on registers, and the state of a search.
"""

from typing import ClassVar

from jepsen.checkers.checker import Checker, Findings
from jepsen.checkers.history import CAS, FAIL, OK, READ, WRITE, Kind, Op, Register
from jepsen.checkers.order_search import STEPS_MAX, search
from jepsen.checkers.registers import Contradiction, Operation, RegisterOperations
from jepsen.checkers.zones import find_contradiction


class Linearizability(Checker):
    """Checker that the operations on each register are linearizable.

    `steps_max` bounds the search steps for all registers together; small registers are searched first."""

    invocations: ClassVar[frozenset[Kind]] = frozenset((WRITE, CAS))
    completions: ClassVar[frozenset[Kind]] = frozenset((WRITE, READ, CAS))

    def __init__(self, findings: Findings | None = None, *, steps_max: int = STEPS_MAX) -> None:
        """Set the limit of search steps, which all registers share."""
        super().__init__(findings)
        self.undecided: list[str] = []
        self._steps_max = steps_max
        self._registers: dict[str, RegisterOperations] = {}
        self._open: dict[int, Operation] = {}

    def on_invocation(self, op: Op) -> None:
        """Record a write or compare-and-set that may take effect from now on."""
        self._open[op.process] = operation = Operation(op)
        self._operations_of(op).operations[op.sequence] = operation

    def on_completion(self, invocation: Op, op: Op) -> None:
        """Record a successful read, or the outcome of a write or compare-and-set.

        An operation that failed is removed, so that a read of its value is a contradiction."""
        if op.kind == READ:
            if op.type == OK:
                read = Operation(invocation)
                read.complete(op)
                self._operations_of(op).operations[invocation.sequence] = read
            return
        operation = self._open.pop(op.process)
        if op.type == OK:
            operation.complete(op)
        elif op.type == FAIL:
            gathered = self._operations_of(invocation)
            del gathered.operations[invocation.sequence]
            gathered.refused[operation.value] = op

    def on_crash(self, op: Op) -> None:
        """Leave the open operation of the process without an end, so that it may take effect at any later time."""
        self._open.pop(op.process, None)

    def _operations_of(self, op: Op) -> RegisterOperations:
        """Return the operations of the register that the entry names."""
        assert isinstance(op.payload, Register), op
        gathered = self._registers.get(op.payload.register)
        if gathered is None:
            gathered = self._registers[op.payload.register] = RegisterOperations()
        return gathered

    def finish(self) -> None:
        """Check each register, those with the fewest operations first.

        A register with only reads and writes is checked exactly; for others a search is bounded, and may leave the
        register undecided."""
        steps_left = self._steps_max
        by_size = sorted(self._registers.items(), key=lambda item: len(item[1].operations))
        for number, (register, gathered) in enumerate(by_size):
            if gathered.is_plain:
                self._report(register, find_contradiction(gathered))
                continue
            searched = search(gathered, steps_left // (len(by_size) - number))
            steps_left = max(0, steps_left - searched.steps_taken)
            if searched.is_decided:
                self._report(register, searched.contradiction)
            else:
                self.undecided.append(register)

    def _report(self, register: str, contradiction: Contradiction | None) -> None:
        """Report that a register is not linearizable, unless there is no contradiction."""
        if contradiction is not None:
            self.findings.report("not-linearizable", f"register {register}: {contradiction.what}", contradiction.ops)
