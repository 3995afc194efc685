"""The messages of a turn, gathered by the process that they go to, so that each gets one write."""

from collections.abc import Iterable

from raftlog.raft import Message
from raftlog.runtime.journal.operations import GroupKey
from raftlog.runtime.transport import Envelope, Transport
from raftlog.types import NodeId


class Outbox:
    """Emptied by `send` at the end of each turn, and when a sync returned."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._by_node: dict[NodeId, list[Envelope]] = {}

    def post(self, key: GroupKey, messages: Iterable[Message]) -> None:
        """Put messages of one group in, in their order."""
        for message in messages:
            node = message.to.node_id
            envelopes = self._by_node.get(node)
            if envelopes is None:
                envelopes = self._by_node[node] = []
            envelopes.append(Envelope(key, message))

    def send(self) -> None:
        """Hand everything to the transport."""
        if self._by_node:
            by_node, self._by_node = self._by_node, {}
            for node, envelopes in by_node.items():
                self._transport.send(node, envelopes)
