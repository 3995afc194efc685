"""Operations of one register with their intervals, and contradictions between them.

An operation takes effect at one moment between its invocation and its completion, which are given by the sequences of
their entries. An operation of unknown outcome takes effect at any time after its invocation, or never. Operations that
definitely failed, and reads without an answer, have no effect on the check and are omitted. Gathered by
`linearizability`, checked by `zones` or by `order_search`."""

from typing import Final, NamedTuple

from jepsen.checkers.history import CAS, READ, WRITE, Kind, Op, Register, Value

NEVER: Final = 1 << 62
"""Sequence in place of the completion of an operation of unknown outcome."""
State = Value | None


class Operation:
    """Operation on a register.

    `value` is the value read or written; `completion` is None when the outcome is unknown."""

    __slots__ = ("completed", "completion", "expected", "invocation", "invoked", "kind", "value")

    def __init__(self, invocation: Op) -> None:
        assert isinstance(invocation.payload, Register), invocation
        self.kind: Final[Kind] = invocation.kind
        self.value: State = invocation.payload.value
        self.expected: Final[State] = invocation.payload.expected
        self.invocation: Final = invocation
        self.invoked: Final = invocation.sequence
        self.completion: Op | None = None
        self.completed = NEVER

    def complete(self, completion: Op) -> None:
        """Record the successful end of the operation; for a read, also the value that it returned."""
        assert isinstance(completion.payload, Register), completion
        self.completion, self.completed = completion, completion.sequence
        if self.kind == READ:
            self.value = completion.payload.value

    @property
    def proof(self) -> tuple[Op, ...]:
        """Entries of the operation: invocation and, if it succeeded, completion."""
        return (self.invocation,) if self.completion is None else (self.invocation, self.completion)

    def __str__(self) -> str:
        """Return the text of the operation: kind, value and process."""
        what = _format_value(self.value)
        if self.kind == CAS:
            what = f"{_format_value(self.expected)} to {what}"
        return f"{self.kind} of {what} by process {self.invocation.process}"


class Contradiction(NamedTuple):
    """Reason why no order exists, in a sentence without the register's name, and the entries that prove it."""

    what: str
    ops: tuple[Op, ...]


class RegisterOperations:
    """All operations of one register by the sequence of their invocation; definite failures by value."""

    def __init__(self) -> None:
        self.operations: dict[int, Operation] = {}
        self.refused: dict[State, Op] = {}

    @property
    def is_plain(self) -> bool:
        """Whether each value identifies the write that it comes from: no compare-and-set, and no value twice."""
        written = [operation.value for operation in self.operations.values() if operation.kind == WRITE]
        has_cas = any(operation.kind == CAS for operation in self.operations.values())
        return not has_cas and None not in written and len(set(written)) == len(written)

    def explain_unwritten_read(self, read: Operation) -> Contradiction:
        """Return the contradiction of a read whose value no successful or unknown write can explain."""
        failed = self.refused.get(read.value)
        if failed is None:
            return Contradiction(f"{read} returned a value that was never written", read.proof)
        return Contradiction(f"{read} returned what definitely failed", (failed, *read.proof))


def _format_value(value: State) -> str:
    """Return the text of a register's value; None is "nothing"."""
    return "nothing" if value is None else repr(value)
