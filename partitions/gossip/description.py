"""What a broker tells of itself by gossip, at most 400 bytes: addresses, host, rack, version, load. Pure.

    msgpack list   [http, rpc, gossip, host label, rack, version, load]
    load           [replicas, leaders, bytes of the disk free, in all, bytes of records a second]

Both lists grow at their end: a reader ignores fields that it does not know, and gives missing numbers of the load and
all behind the version its default. Nothing of it decides anything: the controller's state says which brokers
belong to the cluster, and at which addresses. Called by the room's service.
"""

from typing import Any, Final, NamedTuple

import msgpack  # type: ignore[import-untyped]  # it has no annotations
from msgspec.structs import astuple, fields

from raftlog.errors import FormatError
from raftlog.values.brokers import BrokerLoad

DESCRIPTION_BYTES_MAX: Final = 400
_TEXT_BYTES_MAX: Final = 100
_NUMBER_MAX: Final = (1 << 63) - 1
_CHANGE: Final = 0.1
_LOAD_FIELDS: Final = len(fields(BrokerLoad))
_LEFT_OUT: Final = ((), (4,), (4, 3), (4, 3, 0))
"""Places of texts that go where there is no room: rack, then host label, then http."""


def differs(load: BrokerLoad, told: BrokerLoad) -> bool:
    """Return whether one of the numbers differs by more than a tenth from the number that was gossiped."""
    numbers = zip(astuple(load), astuple(told), strict=True)
    return any(abs(now - before) > _CHANGE * max(abs(before), 1) for now, before in numbers)


class Description(NamedTuple):
    """`http`, `rpc` and `gossip` are HOST:PORT, or empty."""

    http: str
    rpc: str
    gossip: str
    host_label: str
    rack: str
    version: str
    load: BrokerLoad = BrokerLoad()


def encode(described: Description) -> bytes:
    """At most `DESCRIPTION_BYTES_MAX`: texts that are too long for that are left out, the least needed first."""
    *texts, load = described
    texts = list(map(_text, texts))
    for left_out in _LEFT_OUT:
        kept = ["" if number in left_out else text for number, text in enumerate(texts)]
        encoded: bytes = msgpack.packb([*kept, astuple(load)])
        if len(encoded) <= DESCRIPTION_BYTES_MAX:
            return encoded
    raise AssertionError(f"a description of {len(encoded)} bytes without its texts")


def _text(text: str) -> str:
    return text if len(text.encode()) <= _TEXT_BYTES_MAX else ""


def decode(encoded: bytes) -> Description:
    """Raises `FormatError` for anything else."""
    if len(encoded) > DESCRIPTION_BYTES_MAX:
        raise FormatError(f"a description of {len(encoded)} bytes, more than {DESCRIPTION_BYTES_MAX}")
    try:
        row = msgpack.unpackb(encoded, max_array_len=32, max_map_len=32)
    except ValueError as error:  # all of msgpack's errors are
        raise FormatError(f"a description that cannot be read: {type(error).__name__}") from None
    match row:
        case [str(http), str(rpc), str(gossip), str(host), str(rack), str(version), *behind]:
            load = behind[0] if behind else []
            numbers = load[:_LOAD_FIELDS] if type(load) is list else [None]
            if all(map(_is_number, numbers)):
                return Description(http, rpc, gossip, host, rack, version, BrokerLoad(*numbers))
    raise FormatError("a description that is none")


def _is_number(value: Any) -> bool:
    return type(value) is int and -1 <= value <= _NUMBER_MAX
