"""Part: a Ready of a group that is not durable yet; created by the persister, kept by the group in order."""

from raftlog.raft import Message
from raftlog.runtime.journal.blocks import JournalSequence


class Part:
    """Ready of the core that is not durable yet: its number, and the messages to send once it is durable."""

    __slots__ = ("messages", "number", "sequence")

    def __init__(self, number: int, messages: tuple[Message, ...]) -> None:
        """Describe the Ready with this number; `messages` are sent once it is durable."""
        self.number = number
        self.messages = messages
        self.sequence: JournalSequence | None = None
        """Journal sequence with which the part is durable; `None` while the segment of a large append is being synced.
        """
