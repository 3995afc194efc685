"""Checker of the ownership of a consumer group's partitions, generation by generation.

- `two-owners`: two group members own one partition in the same generation. A static member that took the place of an
  earlier one of its name is the same member.
- `generation-went-back`: a member that asked after a generation was known was given an older one.
- `fenced-commit`: a commit was accepted from a member of an older generation, or from a static member whose place
  another one had taken, although this was known everywhere when the commit was requested.

A member learns its generation when its `join` ends well, so that is when a generation is known."""

from typing import ClassVar, NamedTuple

from jepsen.checkers.checker import Checker, Findings
from jepsen.checkers.history import COMMIT, JOIN, OK, GroupOffsets, Kind, Membership, Op
from raftlog.types import TopicPartition


class _Known(NamedTuple):
    """State of a group at a request: its newest generation, and the entry that shows it."""

    generation: int
    op: Op


class Ownership(Checker):
    """See the module."""

    invocations: ClassVar[frozenset[Kind]] = frozenset((JOIN, COMMIT))
    completions: ClassVar[frozenset[Kind]] = frozenset((JOIN, COMMIT))

    def __init__(self, findings: Findings | None = None) -> None:
        super().__init__(findings)
        self._owners: dict[tuple[str, int, TopicPartition], tuple[str, Op]] = {}
        self._newest: dict[str, _Known] = {}
        self._places: dict[tuple[str, str], Op] = {}  # last holder of a static member's place
        self._instances: dict[tuple[str, str], str] = {}  # of members that are static
        self._asked: dict[int, tuple[_Known | None, Op | None]] = {}

    def invoked(self, op: Op) -> None:
        if isinstance(op.payload, GroupOffsets):
            group, member = op.payload.group, op.payload.member
            instance = self._instances.get((group, member), "")
            self._asked[op.process] = self._newest.get(group), self._places.get((group, instance))
        elif isinstance(op.payload, Membership):
            self._asked[op.process] = self._newest.get(op.payload.group), None

    def crashed(self, op: Op) -> None:
        self._asked.pop(op.process, None)

    def completed(self, invocation: Op, op: Op) -> None:
        known, place = self._asked.pop(op.process)
        if op.type != OK:
            return
        if isinstance(op.payload, Membership):
            self._joined(op.payload, known, op)
        elif isinstance(op.payload, GroupOffsets) and op.payload.generation >= 0:
            self._committed(op.payload, known, place, op)

    def _joined(self, joined: Membership, known: _Known | None, op: Op) -> None:
        group, member, generation, partitions, instance = joined
        if known is not None and generation < known.generation:
            text = f"{member} joined {group} in generation {generation} after {known.generation} was known"
            self.findings.report("generation-went-back", text, (known.op, op))
        name = f"static {instance}" if instance else member
        for partition in partitions:
            owner, witness = self._owners.setdefault((group, generation, partition), (name, op))
            if owner != name:
                text = f"{owner} and {name} own {partition} in generation {generation} of {group}"
                self.findings.report("two-owners", text, (witness, op))
        newest = self._newest.get(group)
        if newest is None or generation > newest.generation:
            self._newest[group] = _Known(generation, op)
        if instance:
            self._take_place(joined, op)

    def _take_place(self, joined: Membership, op: Op) -> None:
        """Record the static member's place.

        Answers may overtake one another, so the last member that joined the newest generation certainly holds the
        place."""
        self._instances[joined.group, joined.member] = joined.instance
        before = self._places.get((joined.group, joined.instance))
        held = before.payload if before is not None else None
        if not isinstance(held, Membership) or held.generation <= joined.generation:
            self._places[joined.group, joined.instance] = op

    def _committed(self, commit: GroupOffsets, known: _Known | None, place: Op | None, op: Op) -> None:
        if known is not None and commit.generation < known.generation:
            text = f"{commit.group} took a commit of {commit.member} in generation {commit.generation}"
            text += f" after generation {known.generation} was known"
            self.findings.report("fenced-commit", text, (known.op, op))
        elif place is not None and isinstance(place.payload, Membership) and place.payload.member != commit.member:
            text = f"{commit.group} took a commit of {commit.member}, whose place {place.payload.member} had taken"
            self.findings.report("fenced-commit", text, (place, op))
