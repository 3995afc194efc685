"""Bugs in replication, commit and reads."""

from jepsen.planted.patch import replace_method
from raftlog.raft.entry import Entry
from raftlog.raft.follower import Follower
from raftlog.raft.leader import Leader
from raftlog.raft.messages import AppendRequest, AppendResponse
from raftlog.raft.quorum import quorum_value
from raftlog.raft.replication import Replication
from raftlog.types import Index


def count_leader_unsynced() -> None:
    """Count the leader's own entries as durable before their sync returned."""

    def quorum_durable(self: Replication) -> Index:
        own = self._replica.log.last_index
        return Index(
            quorum_value(
                [own if progress is None else progress.match_index for progress in self._voters],
                [own if progress is None else progress.match_index for progress in self._outgoing],
            )
        )

    replace_method(Replication, "quorum_durable", quorum_durable)


def count_follower_unsynced() -> None:
    """Report entries to the leader as durable that the follower has received but not synced."""

    def prepare(self: Follower) -> None:
        replica, leader = self._replica, self.leader
        if leader is None or not (self._sequence or self._is_answer_owed):
            return
        if self._is_answer_owed or self.verified > self._acknowledged:
            self._acknowledged, self._is_answer_owed = self.verified, False
            verified = self.verified
            answer = AppendResponse(
                replica.me, leader, replica.term, self._sequence, True, verified, verified, verified
            )
            replica.send(answer)

    replace_method(Follower, "prepare", prepare)


def commit_old_term() -> None:
    """Commit entries of earlier terms by counting (thesis 3.6.2, figure 3.7)."""

    def commit(self: Leader) -> None:
        replica, replication = self._replica, self.replication
        replication.may_commit = False
        index = replication.quorum_durable()
        if replica.advance_commit_index(index):
            replication.are_notices_due = True
            while self._uncommitted and self._uncommitted[0][0] <= index:
                self._uncommitted_bytes -= self._uncommitted.popleft()[1]

    replace_method(Leader, "_commit", commit)


def cut_matching() -> None:
    """Replace all entries from the first of an append on, even where they match."""

    def take(self: Follower, entries: tuple[Entry, ...], message: AppendRequest) -> bool:
        replica = self._replica
        if entries[0].index <= replica.log.last_index:
            replica.cut_to(Index(entries[0].index - 1))
        replica.append(entries)
        return True

    replace_method(Follower, "_append_missing", take)


def accept_gap() -> None:
    """Accept an append that begins beyond the end of the log, ignoring the missing entries."""
    handle_append = Follower.handle_append

    def handle(self: Follower, message: AppendRequest) -> None:
        last = self._replica.log.last_id
        if message.entries and message.previous.index > last.index:
            moved = tuple(
                entry._replace(index=Index(last.index + at), payload=bytearray(entry.payload))
                for at, entry in enumerate(message.entries, 1)
            )
            message = message._replace(previous=last, entries=moved)
        handle_append(self, message)

    replace_method(Follower, "handle_append", handle)
    Follower._HANDLERS[AppendRequest] = handle


def read_without_quorum() -> None:
    """Answer reads in a leader without confirming its leadership."""

    def confirm(self: Leader) -> None:
        for read, index in self._reads.confirm(self.replication.sequence):
            self._answer_read(read, index)

    replace_method(Leader, "_answer_confirmed_reads", confirm)
