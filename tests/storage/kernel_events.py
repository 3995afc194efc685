"""Results of AIO syncs as reported by the kernel, changed or delayed."""

import ctypes
import errno

import pytest

from raftlog.storage.syncs.aio_syncs import AioSyncs


def fail_syncs(monkeypatch: pytest.MonkeyPatch, aio: AioSyncs) -> None:
    """Change the result of each sync to EIO."""
    take = aio._take_events

    def fail(syscall: object, least: ctypes.c_long) -> None:
        def getevents(*arguments: object) -> int:
            count: int = aio._blocking(*arguments)
            for event in aio._events[:count]:
                event.result = -errno.EIO
            return count

        take(getevents, least)

    monkeypatch.setattr(aio, "_take_events", fail)


def hold_events(monkeypatch: pytest.MonkeyPatch, aio: AioSyncs) -> None:
    """Leave all events in the kernel, as if no sync returned."""
    monkeypatch.setattr(aio, "_take_events", lambda *_: None)
