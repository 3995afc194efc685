"""Replay protection of authentic datagrams: a sliding window for each sender. Pure.

    sender = node id and disk,   life = its start,   number = rises with every datagram of a life

    life below the newest received           refused: an earlier life of the process, or a stale copy of its disk
    life above it                            the window starts again
    number ≤ highest - WINDOW                refused: too old to decide whether it is a repetition
    number within the window and noted       refused: a repetition

The bitmap has one bit for each of the last `WINDOW` numbers, so a datagram that overtook others is accepted. Senders
are bounded: the longest silent one is removed, which only holders of a key can cause. Called by
`authentication`, once a tag was right."""

from typing import Final, NamedTuple

from raftlog.types import NodeId

WINDOW: Final = 1_024
SENDERS_MAX: Final = 4_096


class SenderKey(NamedTuple):
    """Key of a sender. `disk` distinguishes the directories of a node id; each counts its starts on its own."""

    node_id: NodeId
    disk: bytes


class _ReplayWindow:
    __slots__ = ("highest", "life", "seen")

    def __init__(self, life: int) -> None:
        self.life = life
        self.highest = -1
        self.seen = 0
        """Bit i: the number `highest - i` was there."""


class ReplayGuard:
    """Replay windows of all senders, one guard for each process."""

    def __init__(self, senders_max: int = SENDERS_MAX) -> None:
        self._senders_max = senders_max
        self._windows: dict[SenderKey, _ReplayWindow] = {}
        """Windows in the order of the last datagram, newest last."""

    def __len__(self) -> int:
        return len(self._windows)

    def is_old_life(self, sender: SenderKey, life: int) -> bool:
        window = self._windows.get(sender)
        return window is not None and life < window.life

    def note(self, sender: SenderKey, life: int, number: int) -> bool:
        """Take note of a datagram; false when it was there before, or may have been. Not for an old life."""
        window = self._windows.pop(sender, None)
        if window is None or life > window.life:
            window = _ReplayWindow(life)
        assert life == window.life, f"life {life} of {sender} below {window.life}"
        self._windows[sender] = window
        if len(self._windows) > self._senders_max:
            del self._windows[next(iter(self._windows))]
        return _note(window, number)


def _note(window: _ReplayWindow, number: int) -> bool:
    ahead = number - window.highest
    if ahead > 0:
        # A shift past the window empties it, without a number as long as the gap.
        window.seen = 1 if ahead >= WINDOW else (window.seen << ahead | 1) & ((1 << WINDOW) - 1)
        window.highest = number
        return True
    if -ahead >= WINDOW or window.seen >> -ahead & 1:
        return False
    window.seen |= 1 << -ahead
    return True
