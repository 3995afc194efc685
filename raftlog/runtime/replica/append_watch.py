"""Steps of a traced append at the leader, observed in the turns of its Raft group.

    write to the log → journal sync → commit         `append`, `journal sync`, `commit`
    acknowledgement of each follower                 `replicate`, with the node

A watch exists only for a traced append; it ends with the append's future. A step that had not ended then has the
attribute `pending` (a follower that the quorum did not need)."""

import asyncio
from typing import Any

from raftlog.raft.ready import Status
from raftlog.runtime.replica.partition_replica import PartitionReplica
from raftlog.runtime.tracing.spans import Span
from raftlog.types import Index, NodeId


class AppendWatch:
    """Tracing of entries that a leader has just accepted, until their append completes."""

    def __init__(self, group: PartitionReplica, span: Span, proposed: "asyncio.Future[Any]") -> None:
        """Trace the entries up to the last one of the log; end `span` with the outcome of `proposed`."""
        status = group.core.status()
        self._group, self._span = group, span
        self._last: Index = status.last.index
        began = span.began
        self._append = span.begin_child("append", began)
        self._sync = span.begin_child("journal sync", began)
        self._followers: dict[NodeId, Span] = {
            each.member.node_id: span.begin_child("replicate", began, node=each.member.node_id)
            for each in status.followers
        }
        self._commit = span.begin_child("commit", began)
        span.attributes |= {"node": status.me.node_id, "term": status.term}
        group.watches = (*group.watches, self.observe)
        proposed.add_done_callback(self._on_outcome)

    def observe(self) -> None:
        """End the steps that are done by now; called in each turn of the group and after each sync."""
        if self._group.log.last_index >= self._last:
            self._append.end()
        status: Status = self._group.core.status()
        if status.durable_index >= self._last:
            self._sync.end()
        for each in status.followers:
            span = self._followers.get(each.member.node_id)
            if span is not None and each.match_index >= self._last:
                span.end()
        if status.committed_index >= self._last:
            self._commit.end()

    def _on_outcome(self, proposed: "asyncio.Future[Any]") -> None:
        """Stop observing, and end all steps and the span; called when `proposed` is done."""
        self.observe()
        self._group.watches = tuple(each for each in self._group.watches if each != self.observe)
        error = None if proposed.cancelled() else proposed.exception()
        for span in (self._append, self._sync, *self._followers.values(), self._commit):
            if span.ended is None:
                span.attributes["pending"] = 1
                span.end()
        self._span.end(error)
