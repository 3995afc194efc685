"""Messages of a turn, gathered by destination process, so that each process gets one write.

A commit notice that needs no answer is held back for a moment: under load the next append to the same follower comes
first and carries the commit too. That saves a message, and a turn of the follower's loop, for each commit. All notices
that are held back leave together, with the deferred appends if some are due before (`deferred_appends`)."""

import asyncio
from collections.abc import Iterable
from typing import Final

from raftlog.raft import Message, ReplicaId
from raftlog.raft.messages import AppendRequest, Heartbeat
from raftlog.runtime.journal.operations import GroupKey
from raftlog.runtime.transport import Envelope, Transport
from raftlog.types import NodeId

NOTICE_DELAY_S: Final = 0.03


class Outbox:
    """Outgoing Raft messages, sent at the end of each turn and when a sync has returned."""

    def __init__(self, transport: Transport) -> None:
        """Create an empty outbox, which sends through `transport`."""
        self._transport = transport
        self._by_node: dict[NodeId, list[Envelope]] = {}
        self._notices: dict[tuple[GroupKey, ReplicaId], Heartbeat] = {}
        """Commit notices that are held back; the newest for each follower."""
        self._timer: asyncio.TimerHandle | None = None
        self._are_notices_due = False
        """Whether the next `send` sends the notices too."""

    def post(self, key: GroupKey, messages: Iterable[Message]) -> None:
        """Add messages of one group, in their order; notices may be sent after later messages."""
        for message in messages:
            kind = type(message)
            if kind is AppendRequest:
                if self._notices:
                    self._drop_notice(key, message)  # type: ignore[arg-type]  # its type is known
            elif kind is Heartbeat and _is_notice(message):  # type: ignore[arg-type]
                self._hold(key, message)  # type: ignore[arg-type]
                continue
            self._add(key, message)

    def _add(self, key: GroupKey, message: Message) -> None:
        """Add a message to those for its receiver's process."""
        node = message.to.node_id
        envelopes = self._by_node.get(node)
        if envelopes is None:
            envelopes = self._by_node[node] = []
        envelopes.append(Envelope(key, message))

    def send(self) -> None:
        """Send all messages, except for the commit notices that are delayed."""
        if self._are_notices_due:
            self._add_notices()
        if self._by_node:
            by_node, self._by_node = self._by_node, {}
            for node, envelopes in by_node.items():
                self._transport.send(node, envelopes)

    def stop(self) -> None:
        """Drop the notices and the timer for good."""
        self._notices.clear()
        if self._timer is not None:
            self._timer.cancel()

    # notices

    def send_notices_next(self) -> None:
        """Send the delayed commit notices with the next messages: then they cost no frames of their own."""
        self._are_notices_due = True

    def _hold(self, key: GroupKey, notice: Heartbeat) -> None:
        """Delay a notice of the commit index, in place of an older one to the same follower."""
        self._notices[key, notice.to] = notice
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(NOTICE_DELAY_S, self._send_notices)

    def _drop_notice(self, key: GroupKey, append: AppendRequest) -> None:
        """Drop a notice if the append carries the same commit."""
        notice = self._notices.get((key, append.to))
        if notice is None:
            return
        sent_commit = min(append.committed, append.previous.index + len(append.entries))
        if notice.term == append.term and notice.committed <= sent_commit:
            del self._notices[key, append.to]

    def _send_notices(self) -> None:
        """Send the delayed commit notices."""
        self._add_notices()
        self.send()

    def _add_notices(self) -> None:
        """Add the delayed commit notices to the other messages, and stop their timer."""
        self._are_notices_due = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        notices, self._notices = self._notices, {}
        for (key, _), notice in notices.items():
            self._add(key, notice)


def _is_notice(message: Heartbeat) -> bool:
    """Return whether a heartbeat only announces the commit index and needs no answer."""
    return message.sequence == 0 and message.quiesce_at is None
