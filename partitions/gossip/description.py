"""Description of a broker in its gossip, at most 400 bytes: addresses, host, rack, version, load. Pure.

    msgpack list   [http, rpc, gossip, host label, rack, version, load]
    load           [replicas, leaders, bytes of the disk free, in all, bytes of records a second]

Both lists grow at their end: a reader ignores unknown fields, and uses defaults for missing numbers of the load and for
all fields after the version. Descriptions decide nothing: the controller's state lists the brokers of the cluster and
their addresses. Called by `service`."""

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
_TEXTS: Final = 6
"""Texts at the beginning of a description; the load follows, then the fields of later releases."""
_LEFT_OUT: Final = ((), (4,), (4, 3), (4, 3, 0))
"""Indexes of the texts to leave out when the description is too long: rack, then host label, then http."""


def differs(load: BrokerLoad, announced: BrokerLoad) -> bool:
    """Return whether a number of the load differs by more than a tenth from the announced one."""
    numbers = zip(astuple(load), astuple(announced), strict=True)
    return any(abs(now - before) > _CHANGE * max(abs(before), 1) for now, before in numbers)


class Description(NamedTuple):
    """Properties that a broker gossips about itself; `http`, `rpc` and `gossip` are HOST:PORT, or empty."""

    http: str
    rpc: str
    gossip: str
    host_label: str
    rack: str
    version: str
    load: BrokerLoad = BrokerLoad()


def encode(described: Description) -> bytes:
    """Encode a description in at most `DESCRIPTION_BYTES_MAX`; if it is too long, omit the least important texts."""
    texts = list(map(_limit_text, described[:_TEXTS]))
    later_values = (astuple(described.load), *described[_TEXTS + 1 :])
    for left_out in _LEFT_OUT:
        kept = ["" if number in left_out else text for number, text in enumerate(texts)]
        encoded: bytes = msgpack.packb([*kept, *later_values])
        if len(encoded) <= DESCRIPTION_BYTES_MAX:
            return encoded
    raise AssertionError(f"the gossip description has {len(encoded)} bytes without its texts")


def _limit_text(text: str) -> str:
    """Return the text, or "" if it is too long for a description."""
    return text if len(text.encode()) <= _TEXT_BYTES_MAX else ""


def decode(encoded: bytes) -> Description:
    """Decode a description. Raises `FormatError` for any other bytes."""
    if len(encoded) > DESCRIPTION_BYTES_MAX:
        raise FormatError(f"the gossip description has {len(encoded)} bytes; the limit is {DESCRIPTION_BYTES_MAX}")
    try:
        row = msgpack.unpackb(encoded, max_array_len=32, max_map_len=32)
    except ValueError as error:  # all errors of msgpack are ValueErrors
        raise FormatError(f"the gossip description is no msgpack: {type(error).__name__}") from None
    match row:
        case [str(http), str(rpc), str(gossip), str(host), str(rack), str(version), *later_values]:
            load = later_values[0] if later_values else []
            numbers = load[:_LOAD_FIELDS] if type(load) is list else [None]
            if all(map(_is_number, numbers)):
                return Description(http, rpc, gossip, host, rack, version, BrokerLoad(*numbers))
    raise FormatError("the gossip description does not have the fields of one")


def _is_number(value: Any) -> bool:
    """Return whether the value is a whole number from -1 (unknown) to the bound."""
    return type(value) is int and -1 <= value <= _NUMBER_MAX
