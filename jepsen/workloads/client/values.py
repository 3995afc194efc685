"""Values and their bytes: unique numbers, and payloads in which a changed byte is detected.

    payload = the number and a space, repeated and cut to the size

A payload that is not such a repetition is read as a text. No client sends texts, so the checkers report it as a
phantom. A tombstone has no payload; a header contains its number."""

from collections.abc import Sequence
from typing import Final

from jepsen.checkers.history import Value
from raftlog.records import Record

_CLIENT_SHARE: Final = 10**9
"""Number of values that one client may send."""
_SHOWN_BYTES: Final = 40
_HEADER: Final = "value"


def values_of(client: int) -> range:
    """Return the range of numbers that only this client uses."""
    return range(client * _CLIENT_SHARE, (client + 1) * _CLIENT_SHARE)


def make_payload(value: int, size: int) -> bytes:
    """Return the payload of a value: `size` bytes, or more if the number needs more."""
    token = b"%d " % value
    size = max(size, len(token))
    return (token * (size // len(token) + 1))[:size]


def tombstone_headers(value: int) -> Sequence[tuple[str, bytes | None]]:
    """Return the headers of a tombstone."""
    return ((_HEADER, b"%d" % value),)


def parse_payload(payload: bytes | None) -> Value:
    """Return the number in the payload, or a text if the payload is not as it was sent."""
    head = (payload or b"").split(b" ", 1)[0]
    if payload and head.isdigit() and make_payload(int(head), len(payload)) == payload:
        return int(head)
    return f"not as sent: {(payload or b'')[:_SHOWN_BYTES]!r}"


def parse_record(record: Record) -> Value:
    """Return the value of a record, which may be a tombstone."""
    if record.value is None and len(record.headers) == 1 and record.headers[0][0] == _HEADER:
        number = record.headers[0][1] or b""
        return int(number) if number.isdigit() else f"not as sent: {number!r}"
    return parse_payload(record.value)
