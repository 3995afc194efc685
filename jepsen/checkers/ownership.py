"""Checker of the ownership of partitions in consumer groups, generation by generation.

- `two-owners`: two group members own one partition in the same generation. A static member that replaced an
  earlier member with its instance id counts as the same member.
- `generation-went-back`: a member's request began after a generation was known, and the answer has an older one.
- `fenced-commit`: a commit was accepted from a member of an older generation, or from a static member that another one
  had replaced, although the newer generation or member was known when the commit was requested.

A generation is known when a `join` with it has succeeded."""

from typing import ClassVar, NamedTuple

from jepsen.checkers.checker import Checker, Findings
from jepsen.checkers.history import COMMIT, JOIN, OK, GroupOffsets, Kind, Membership, Op
from raftlog.types import TopicPartition


class _KnownGeneration(NamedTuple):
    """Newest generation of a group that was known at a request, and the entry that shows it."""

    generation: int
    op: Op


class Ownership(Checker):
    """Checker of the generations of consumer groups, and of the owners of partitions in each."""

    invocations: ClassVar[frozenset[Kind]] = frozenset((JOIN, COMMIT))
    completions: ClassVar[frozenset[Kind]] = frozenset((JOIN, COMMIT))

    def __init__(self, findings: Findings | None = None) -> None:
        super().__init__(findings)
        self._owners: dict[tuple[str, int, TopicPartition], tuple[str, Op]] = {}
        self._newest: dict[str, _KnownGeneration] = {}
        self._places: dict[tuple[str, str], Op] = {}  # join of the last member with each instance id
        self._instances: dict[tuple[str, str], str] = {}  # instance ids of static members
        self._asked: dict[int, tuple[_KnownGeneration | None, Op | None]] = {}

    def on_invocation(self, op: Op) -> None:
        """Record the newest generation and the last member with the instance id, as known when a request begins."""
        if isinstance(op.payload, GroupOffsets):
            group, member = op.payload.group, op.payload.member
            instance = self._instances.get((group, member), "")
            self._asked[op.process] = self._newest.get(group), self._places.get((group, instance))
        elif isinstance(op.payload, Membership):
            self._asked[op.process] = self._newest.get(op.payload.group), None

    def on_crash(self, op: Op) -> None:
        """Forget the open request of the process."""
        self._asked.pop(op.process, None)

    def on_completion(self, invocation: Op, op: Op) -> None:
        """Check a successful join, or a successful commit that names a generation."""
        known, place = self._asked.pop(op.process)
        if op.type != OK:
            return
        if isinstance(op.payload, Membership):
            self._on_join(op.payload, known, op)
        elif isinstance(op.payload, GroupOffsets) and op.payload.generation >= 0:
            self._on_commit(op.payload, known, place, op)

    def _on_join(self, joined: Membership, known: _KnownGeneration | None, op: Op) -> None:
        """Check the generation and the partitions of a member that joined.

        `known` is the newest generation of the group when the join was requested."""
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
            self._newest[group] = _KnownGeneration(generation, op)
        if instance:
            self._record_place(joined, op)

    def _record_place(self, joined: Membership, op: Op) -> None:
        """Record the member that has this instance id now.

        Answers can overtake one another: the last member that joined the newest generation certainly has the id."""
        self._instances[joined.group, joined.member] = joined.instance
        before = self._places.get((joined.group, joined.instance))
        held = before.payload if before is not None else None
        if not isinstance(held, Membership) or held.generation <= joined.generation:
            self._places[joined.group, joined.instance] = op

    def _on_commit(self, commit: GroupOffsets, known: _KnownGeneration | None, place: Op | None, op: Op) -> None:
        """Report an accepted commit of an older generation, or of a static member that had been replaced.

        `known` and `place` are the generation and the join with the same instance id that were known at the request."""
        if known is not None and commit.generation < known.generation:
            text = f"{commit.group} took a commit of {commit.member} in generation {commit.generation}"
            text += f" after generation {known.generation} was known"
            self.findings.report("fenced-commit", text, (known.op, op))
        elif place is not None and isinstance(place.payload, Membership) and place.payload.member != commit.member:
            text = f"{commit.group} took a commit of {commit.member}, whose place {place.payload.member} had taken"
            self.findings.report("fenced-commit", text, (place, op))
