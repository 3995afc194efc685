"""Queue of actions that wait for the journal to become durable up to a sequence.

sequences ascend along the queue, in the order in which the journal assigns them"""

from collections import deque
from collections.abc import Callable, Hashable
from typing import Any, TypeAlias

from raftlog.runtime.journal.blocks import JournalSequence

Action: TypeAlias = Callable[[Any, JournalSequence], None]
"""Called with its subject and the sequence up to which the journal is durable."""


class DurableWaits:
    """Actions that wait until the journal is durable; one that is added repeatedly for a subject runs once."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[JournalSequence, Action, Hashable]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, sequence: JournalSequence, action: Action, subject: Hashable) -> None:
        """Schedule the action for when the journal is durable up to `sequence`."""
        self._waiting.append((sequence, action, subject))

    def settle(self, durable: JournalSequence) -> None:
        """Run the actions that wait for a sequence up to `durable`, oldest first."""
        due: dict[tuple[Action, Hashable], None] = {}
        while self._waiting and self._waiting[0][0] <= durable:
            _, action, subject = self._waiting.popleft()
            due[action, subject] = None
        for action, subject in due:
            action(subject, durable)

    def drain(self) -> list[Hashable]:
        """Empty the queue after the journal failed, and return the subjects that waited."""
        subjects = [subject for _, _, subject in self._waiting]
        self._waiting.clear()
        return subjects
