"""Checker of commits by members and operators: the last one takes effect, and later reads show it.

`lost-commit`: a read returned no offset, or one that another commit had certainly replaced before the read began. A
commit replaces commits that ended before it began. It also replaces all commits of older generations, which are refused
from then on. An offset that a read returned counts as committed when the read ended. Commits without a member only
raise offsets; in a group with members a read may return them, and they replace nothing. `monotonicity` checks groups
that have only such commits.

Memory: per group and partition the commits that a read may still show.
"""

from typing import ClassVar, Final

from jepsen.checkers.checker import Checker, Findings
from jepsen.checkers.history import COMMIT, COMMITTED, FAIL, OK, GroupOffsets, Kind, Op
from raftlog.types import Offset, TopicPartition

GroupPartition = tuple[str, TopicPartition]
NEVER: Final = 1 << 62


class _Commit:
    """Commit of one offset by a group member.

    `ended` and `replaced_at` are sequences of entries; `by` proves that it was replaced."""

    __slots__ = ("began", "by", "ended", "generation", "offset", "op", "replaced_at")

    def __init__(self, op: Op, offset: Offset, generation: int) -> None:
        self.op, self.offset, self.generation = op, offset, generation
        self.began = op.sequence
        self.ended = self.replaced_at = NEVER
        self.by: Op | None = None


class MemberCommits(Checker):
    """Checker that reads of committed offsets return the last commit."""

    invocations: ClassVar[frozenset[Kind]] = frozenset((COMMIT, COMMITTED))
    completions: ClassVar[frozenset[Kind]] = frozenset((COMMIT, COMMITTED))

    def __init__(self, findings: Findings | None = None) -> None:
        super().__init__(findings)
        self._commits: dict[GroupPartition, list[_Commit]] = {}
        self._replaced: dict[GroupPartition, dict[Offset, Op]] = {}  # by the replacing entry
        self._unobserved: dict[GroupPartition, set[Offset]] = {}  # committed without a member
        self._firsts: dict[GroupPartition, Op] = {}  # first answered commit; later reads return an offset
        self._open: dict[int, dict[GroupPartition, _Commit]] = {}
        self._reads: dict[int, Op] = {}

    def on_invocation(self, op: Op) -> None:
        """Record a read as pending, or a commit's offsets: those of a member as `_Commit`, others as unobserved."""
        payload = op.payload
        assert isinstance(payload, GroupOffsets), op
        if op.kind == COMMITTED:
            self._reads[op.process] = op
            return
        opened = self._open[op.process] = {}
        for partition, offset in payload.offsets:
            if offset is not None and not payload.member:
                self._unobserved.setdefault((payload.group, partition), set()).add(offset)
            elif offset is not None:
                commit = opened[payload.group, partition] = _Commit(op, offset, payload.generation)
                self._commits.setdefault((payload.group, partition), []).append(commit)

    def on_crash(self, op: Op) -> None:
        """Forget the open read of the process; its open commit may still take effect."""
        self._reads.pop(op.process, None)
        self._open.pop(op.process, None)

    def on_completion(self, invocation: Op, op: Op) -> None:
        """Check a read of committed offsets, or record the outcome of a commit."""
        payload = op.payload
        assert isinstance(payload, GroupOffsets), op
        if op.kind == COMMITTED:
            read = self._reads.pop(op.process)
            if op.type == OK:
                for partition, offset in payload.offsets:
                    self._check_shown((payload.group, partition), offset, read, op)
            return
        for key, commit in self._open.pop(op.process).items():
            if op.type == FAIL:
                self._commits[key] = [each for each in self._commits[key] if each is not commit]
            elif op.type == OK:
                self._record_certain(key, commit, op)

    def _record_certain(self, key: GroupPartition, commit: _Commit, op: Op) -> None:
        """Record that this entry proves that the commit took effect."""
        self._firsts.setdefault(key, op)
        commit.ended = min(commit.ended, op.sequence)
        oldest_read = min((read.sequence for read in self._reads.values()), default=op.sequence)
        for other in self._commits[key]:
            is_older = 0 <= other.generation < commit.generation
            if other is not commit and (is_older or other.ended < commit.began) and op.sequence < other.replaced_at:
                other.replaced_at, other.by = op.sequence, op
                if op.sequence <= oldest_read:
                    self._replaced.setdefault(key, {})[other.offset] = op
        self._commits[key] = [each for each in self._commits[key] if each.replaced_at > oldest_read]

    def _check_shown(self, key: GroupPartition, offset: Offset | None, read: Op, op: Op) -> None:
        """Report a read that returned an offset which a newer commit had certainly replaced before the request."""
        if offset is None:
            first = self._firsts.get(key)
            if first is not None and first.sequence < read.sequence:
                self._report(key, offset, first, op)
            return
        found = [commit for commit in self._commits.get(key, ()) if commit.offset == offset]
        current = [commit for commit in found if commit.replaced_at > read.sequence]
        if len(current) == 1:
            self._record_certain(key, current[0], op)
        elif not current and key in self._firsts and offset not in self._unobserved.get(key, ()):
            by = found[-1].by if found else self._replaced.get(key, {}).get(offset, self._firsts[key])
            self._report(key, offset, by, op)

    def _report(self, key: GroupPartition, offset: Offset | None, newer: Op | None, op: Op) -> None:
        """Report that a read returned `offset` (None: no offset) although a newer commit was known before the read."""
        text = f"group {key[0]} {key[1]} is at {offset}, and a newer commit was known before that was asked"
        self.findings.report("lost-commit", text, (newer, op))
