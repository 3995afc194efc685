"""Replay protection of authentic datagrams: a sliding window for each sender. Pure.

    sender = node id and disk,   boot epoch = number of starts of the disk,   number = rises with every datagram

    boot epoch below the newest received     refused: an earlier start of the process, or a stale copy of its disk
    boot epoch above the newest received     accepted: a new window begins
    number ≤ highest - WINDOW                refused: too old to decide whether it is a repetition
    number within the window, received       refused: a repetition

The bitmap has one bit for each of the last `WINDOW` numbers, so datagrams are accepted in any order. The number of
senders is bounded: the sender that was silent for the longest time is removed; only holders of a key can cause that.
Called by `authentication` after the tag was verified."""

from typing import Final, NamedTuple

from raftlog.types import NodeId

WINDOW: Final = 1_024
SENDERS_MAX: Final = 4_096


class SenderKey(NamedTuple):
    """Key of a sender; `disk` distinguishes the directories of a node id, since each counts its starts separately."""

    node_id: NodeId
    disk: bytes


class _ReplayWindow:
    """Received numbers of one sender since its newest start."""

    __slots__ = ("boot_epoch", "highest", "seen")

    def __init__(self, boot_epoch: int) -> None:
        self.boot_epoch = boot_epoch
        self.highest = -1
        self.seen = 0
        """Bit i: the number `highest - i` was received."""


class ReplayGuard:
    """Replay windows of all senders, one guard for each process."""

    def __init__(self, senders_max: int = SENDERS_MAX) -> None:
        self._senders_max = senders_max
        self._windows: dict[SenderKey, _ReplayWindow] = {}
        """Windows in the order of the last datagram, newest last."""

    def __len__(self) -> int:
        """Return the number of known senders."""
        return len(self._windows)

    def is_old_boot_epoch(self, sender: SenderKey, boot_epoch: int) -> bool:
        """Return whether the sender has sent under a newer boot epoch."""
        window = self._windows.get(sender)
        return window is not None and boot_epoch < window.boot_epoch

    def accept(self, sender: SenderKey, boot_epoch: int, number: int) -> bool:
        """Record a datagram of the newest boot epoch; return whether it is surely no repetition."""
        window = self._windows.pop(sender, None)
        if window is None or boot_epoch > window.boot_epoch:
            window = _ReplayWindow(boot_epoch)
        assert boot_epoch == window.boot_epoch, f"boot_epoch {boot_epoch} of {sender} below {window.boot_epoch}"
        self._windows[sender] = window
        if len(self._windows) > self._senders_max:
            del self._windows[next(iter(self._windows))]
        return _accept_number(window, number)


def _accept_number(window: _ReplayWindow, number: int) -> bool:
    """Record a number as received; return False if it was received before, or is older than the window."""
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
