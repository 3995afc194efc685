"""Isolation of reads over HTTP and between brokers: its field in requests, and removal of the batches that it hides."""

from typing import Any, Final

from raftlog.partitions.results import Fetched
from raftlog.records import drop_hidden
from raftlog.types import Isolation, Offset

COMMITTED: Final = Isolation.READ_COMMITTED
"""Isolation of readers that choose none."""


def hide_transactions(fetched: Fetched) -> Fetched:
    """Return the result of a fetch without markers and batches of aborted transactions.

    Its high watermark is the end for its isolation, because readers take everything below for readable or removed."""
    end = fetched.high_watermark if fetched.last_stable_offset < 0 else fetched.last_stable_offset
    batches = drop_hidden(fetched.batches, fetched.aborted)
    return fetched._replace(batches=batches, high_watermark=end, aborted=(), last_stable_offset=Offset(-1))


def isolation_field(isolation: Isolation) -> dict[str, int]:
    """Return the isolation as a header field of a request; none for the default, committed records."""
    return {} if isolation is Isolation.READ_COMMITTED else {"isolation": int(isolation)}


def isolation_of(header: dict[str, Any]) -> Isolation:
    """Return the isolation of a request, the inverse of `isolation_field`."""
    is_uncommitted = header.get("isolation") == Isolation.READ_UNCOMMITTED
    return Isolation.READ_UNCOMMITTED if is_uncommitted else Isolation.READ_COMMITTED
