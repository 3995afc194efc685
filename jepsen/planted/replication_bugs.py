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
    """Plant a bug: a leader counts its own entries as durable before their sync has returned."""

    def quorum_durable(self: Replication) -> Index:
        """Return the index up to which a quorum has the entries, with the leader's last entry as its own position."""
        own = self._replica.log.last_index
        return Index(
            quorum_value(
                [own if progress is None else progress.match_index for progress in self._voters],
                [own if progress is None else progress.match_index for progress in self._outgoing],
            )
        )

    replace_method(Replication, "quorum_durable", quorum_durable)


def count_follower_unsynced() -> None:
    """Plant a bug: a follower reports entries as durable that it has received but not synced."""

    def answer_before_sync(self: Follower) -> None:
        """Answer the leader, with the last received entry as durable, when the entry is new or an answer is due."""
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

    replace_method(Follower, "prepare", answer_before_sync)


def commit_old_term() -> None:
    """Plant a bug: a leader commits entries of earlier terms by counting replicas (thesis 3.6.2, figure 3.7)."""

    def commit_any_term(self: Leader) -> None:
        """Commit up to the index that a quorum holds, without checking the term of the entry."""
        replica, replication = self._replica, self.replication
        replication.may_commit = False
        index = replication.quorum_durable()
        if replica.advance_commit_index(index):
            replication.are_notices_due = True
            while self._uncommitted and self._uncommitted[0][0] <= index:
                self._uncommitted_bytes -= self._uncommitted.popleft()[1]

    replace_method(Leader, "_commit", commit_any_term)


def cut_matching() -> None:
    """Plant a bug: a follower cuts its log before the first entry of each append, even where the entries match."""

    def cut_and_append(self: Follower, entries: tuple[Entry, ...], message: AppendRequest) -> bool:
        """Cut the log before the first entry, append all entries, and return true."""
        replica = self._replica
        if entries[0].index <= replica.log.last_index:
            replica.cut_to(Index(entries[0].index - 1))
        replica.append(entries)
        return True

    replace_method(Follower, "_append_missing", cut_and_append)


def accept_gap() -> None:
    """Plant a bug: a follower accepts an append that begins beyond the end of its log, with entries missing."""
    handle_append = Follower.handle_append

    def close_gap(self: Follower, message: AppendRequest) -> None:
        """Renumber entries beyond the end of the log so that they follow its last entry; then handle the append."""
        last = self._replica.log.last_id
        if message.entries and message.previous.index > last.index:
            moved = tuple(
                entry._replace(index=Index(last.index + at), payload=bytearray(entry.payload))
                for at, entry in enumerate(message.entries, 1)
            )
            message = message._replace(previous=last, entries=moved)
        handle_append(self, message)

    replace_method(Follower, "handle_append", close_gap)
    Follower._HANDLERS[AppendRequest] = close_gap


def read_without_quorum() -> None:
    """Plant a bug: a leader answers reads without confirming its leadership."""

    def answer_unconfirmed(self: Leader) -> None:
        """Answer all waiting reads, as if a majority had answered the newest heartbeat."""
        for read, index in self._reads.confirm(self.replication.sequence):
            self._answer_read(read, index)

    replace_method(Leader, "_answer_confirmed_reads", answer_unconfirmed)
