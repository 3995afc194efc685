"""Interface of the shared state of a listener's connections."""

import asyncio
from typing import Protocol, TypeVar

from raftlog.api.kafka.dispatcher import Dispatcher
from raftlog.api.kafka.login import KafkaLogin
from raftlog.api.kafka.settings import KafkaSettings
from raftlog.api.kafka.turns import LoopTurns
from raftlog.partitions.caller import Caller
from raftlog.runtime.memory_budget import MemoryBudget

Connection = TypeVar("Connection", contravariant=True)


class ConnectionOwner(Protocol[Connection]):
    """Interface of the shared state of a listener's connections."""

    name: str
    settings: KafkaSettings
    dispatcher: Dispatcher
    requests: MemoryBudget
    answers: MemoryBudget
    turns: LoopTurns
    scratch: memoryview
    """Receive buffer of all connections; its bytes are valid only during one callback."""
    is_stopping: bool

    def register(self, connection: Connection) -> bool:
        """Register a connection; return false if it has to be closed because there are too many."""

    def identify(self, transport: asyncio.BaseTransport) -> tuple[Caller, KafkaLogin | None]:
        """Return the caller of a new connection, and the state of its login; None where none is required."""

    def remove(self, connection: Connection) -> None:
        """Remove a closed connection from the listener."""

    def log_closed(self, connection: Connection, why: str) -> None:
        """Count and log a connection that is closed because of an error of the client."""
