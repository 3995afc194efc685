"""Counters of a node, from which the number of messages per operation is computed.

`messages_between_nodes` counts all messages that this node sent to other nodes, also heartbeats. Add the counters of
all nodes: a leader sends more than the others."""

from collections import Counter
from typing import Any


class MessageCounters:
    """Counts of operations and messages since the start of the node."""

    def __init__(self) -> None:
        self.operations: Counter[str] = Counter()
        """Requests of clients, by workload."""
        self.messages: Counter[str] = Counter()
        """Messages to other nodes, by type."""
        self.refused = 0
        """Lines and messages that could not be read, or came from an unknown sender."""

    def report(self, node: str) -> dict[str, Any]:
        """Return the counters as one JSON object."""
        operations, messages = self.operations.total(), self.messages.total()
        return {
            "node": node,
            "operations": operations,
            "messages_between_nodes": messages,
            "messages_per_operation": round(messages / operations, 3) if operations else None,
            "operations_by_workload": dict(sorted(self.operations.items())),
            "messages_by_type": dict(sorted(self.messages.items())),
            "refused": self.refused,
        }
