"""Bugs in journal and segments, and in their recovery."""

import asyncio
from collections.abc import Sequence

from jepsen.planted.patch import replace_method
from raftlog.raft import EntryId
from raftlog.runtime.journal import valid_range
from raftlog.runtime.journal.fold import Fold, FoldedGroup
from raftlog.runtime.journal.survey import BlockRun, FileSurvey
from raftlog.runtime.journal.valid_range import BlockSpan, ValidRange
from raftlog.runtime.log import startup as opening
from raftlog.runtime.log.group_log import GroupLog
from raftlog.runtime.log.group_recovery import RecoveredGroup, recover_group
from raftlog.runtime.process.persister import Persister
from raftlog.storage.disk import Disk
from raftlog.storage.roll import RollMember
from raftlog.types import Index, Term

_CUT_HELD_S = 0.3
"""Seconds for which a cut is not journaled, as with a slow disk."""


def replay_out_of_order() -> None:
    """Plant a bug: recovery replays hard states newest first, so that the oldest one wins."""
    set_hard_state = FoldedGroup.set_hard_state
    seen: dict[int, FoldedGroup] = {}

    def set_first(self: FoldedGroup, term: int, vote: RollMember | None) -> str | None:
        """Set only the first hard state of each group, and ignore the others."""
        if id(self) in seen:
            return None
        seen[id(self)] = self
        return set_hard_state(self, term, vote)

    replace_method(FoldedGroup, "set_hard_state", set_first)


def cut_corrupt() -> None:
    """Plant a bug: recovery cuts the log before a damaged entry instead of reporting the damage."""

    def recover_and_cut(disk: Disk, path: str, folded: FoldedGroup, fold: Fold | None) -> RecoveredGroup:
        """Recover the group, cut its log before the first damaged entry, and report no damage."""
        recovered = recover_group(disk, path, folded, fold)
        if not recovered.damage:
            return recovered
        bad = min(damage.index for damage in recovered.damage)
        if 1 < bad <= recovered.log.last_index and bad > recovered.log.segments[0].base_index:
            recovered.log.cut_to_index(Index(bad - 1))
        return recovered._replace(damage=(), lost_from=None, voting_position=None, unwritten=())

    replace_method(opening, "recover_group", recover_and_cut)


def treat_damage_as_torn() -> None:
    """Plant a bug: recovery treats any damage in the journal as the end of an unfinished write, and cuts it."""

    def classify_as_torn(
        _path: str, surveys: Sequence[FileSurvey], _follow_chain: list[BlockRun], end: ValidRange
    ) -> None:
        """Classify all blocks after the valid range, and all damaged ones, as an unfinished write."""
        for survey in surveys:
            for run in survey.runs:
                if run.end > end.end:
                    stray = max(run.sequence, end.end)
                    end.stray.append(BlockSpan(run.file, run.block_of(stray), run.end - stray))
            end.stray += [BlockSpan(survey.file, bad.block, bad.count) for bad in survey.bad]

    replace_method(valid_range, "_classify_blocks_after", classify_as_torn)


def overwrite_before_cut() -> None:
    """Plant a bug: cut entries are freed in the files at once, before the journal records the cut."""
    cut_to, end_turn, flush = GroupLog.cut_to, Persister.end_turn, Persister.flush
    held: dict[Persister, None] = {}

    def cut_at_once(self: GroupLog, index: Index) -> bool:
        """Cut the log, and at once its segment files; return false, as if the files were not affected."""
        if cut_to(self, index):
            self.settle_cut()
            files = self.segments.active.files
            self.segments.disk.sync([files.log, files.index], [self.segments.path])
        return False

    def end_turn_with_cut_held(self: Persister) -> None:
        """End the turn; if there are cuts, hold the journal's flush back for `_CUT_HELD_S`."""
        if self._cuts and self not in held:
            held[self] = None
            asyncio.get_running_loop().call_later(_CUT_HELD_S, release, self)
        end_turn(self)

    def flush_unless_held(self: Persister) -> None:
        """Flush the journal unless a cut is held back."""
        if self not in held:
            flush(self)

    def release(persister: Persister) -> None:
        """End the delay of the persister's flush, and flush."""
        del held[persister]
        flush(persister)

    replace_method(GroupLog, "cut_to", cut_at_once)
    replace_method(Persister, "end_turn", end_turn_with_cut_held)
    replace_method(Persister, "flush", flush_unless_held)


def forget_boundary_term() -> None:
    """Plant a bug: a trim forgets the term of the last entry that it deletes."""
    trim = GroupLog.trim

    def trim_and_forget(self: GroupLog, offset: int) -> None:
        """Trim the log, and set the term of the last deleted entry to 0."""
        trim(self, offset)
        self._boundary = EntryId(self._boundary.index, Term(0))

    replace_method(GroupLog, "trim", trim_and_forget)
