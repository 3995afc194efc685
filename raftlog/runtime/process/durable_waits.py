"""Who waits for the journal to become durable up to which sequence.

sequences ascend along the queue, as the journal hands them out
"""

from collections import deque
from collections.abc import Callable, Hashable
from typing import Any, TypeAlias

from raftlog.runtime.journal.blocks import JournalSequence

Action: TypeAlias = Callable[[Any, JournalSequence], None]
"""Called with what it is about and how far the journal is durable."""


class DurableWaits:
    """A queue of actions; one that waits several times for the same runs once."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[JournalSequence, Action, Hashable]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, sequence: JournalSequence, action: Action, subject: Hashable) -> None:
        """Run the action once the journal is durable up to `sequence`."""
        self._waiting.append((sequence, action, subject))

    def settle(self, durable: JournalSequence) -> None:
        """The journal is durable up to here: run what waited for that, in the order of waiting."""
        due: dict[tuple[Action, Hashable], None] = {}
        while self._waiting and self._waiting[0][0] <= durable:
            _, action, subject = self._waiting.popleft()
            due[action, subject] = None
        for action, subject in due:
            action(subject, durable)

    def drain(self) -> list[Hashable]:
        """Nothing becomes durable any more: who waited in vain."""
        subjects = [subject for _, _, subject in self._waiting]
        self._waiting.clear()
        return subjects
