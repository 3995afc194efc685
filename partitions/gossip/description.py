"""What a broker tells of itself by gossip, at most 400 bytes: addresses, host, rack, version, load. Pure.

    msgpack list   [http, rpc, gossip, host label, rack, version, load]
    load           [replicas, leaders, bytes of the disk free, in all, bytes of records a second]

Both lists grow at their end: a reader ignores fields that it does not know, and gives missing numbers of the load and
all behind the version its default. Nothing of it decides anything: the controller's state says which brokers
belong to the cluster, and at which addresses. Called by the room's service.
"""

from typing import Any, Final, NamedTuple

import msgpack  # type: ignore[import-untyped]  # it has no annotations

from raftlog.errors import FormatError

DESCRIPTION_BYTES_MAX: Final = 400
_TEXT_BYTES_MAX: Final = 100
_NUMBER_MAX: Final = (1 << 63) - 1
_CHANGE: Final = 0.1
_LEFT_OUT: Final = ((), (4,), (4, 3), (4, 3, 0))
"""Places of texts that go where there is no room: rack, then host label, then http."""


class BrokerLoad(NamedTuple):
    """`disk_free` and `disk_total` in bytes, -1 where the file system does not say; `bytes_in_per_s` of records that
    were appended here."""

    replicas: int = 0
    leaders: int = 0
    disk_free: int = -1
    disk_total: int = -1
    bytes_in_per_s: int = 0

    def differs(self, told: "BrokerLoad") -> bool:
        """Whether one of the numbers is another one by a tenth of what was told."""
        return any(abs(now - before) > _CHANGE * max(abs(before), 1) for now, before in zip(self, told, strict=True))


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
        encoded: bytes = msgpack.packb([*kept, list(load)])
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
        fields = msgpack.unpackb(encoded, max_array_len=32, max_map_len=32)
    except ValueError as error:  # all of msgpack's errors are
        raise FormatError(f"a description that cannot be read: {type(error).__name__}") from None
    match fields:
        case [str(http), str(rpc), str(gossip), str(host), str(rack), str(version), *behind]:
            load = behind[0] if behind else []
            numbers = load[: len(BrokerLoad._fields)] if type(load) is list else [None]
            if all(map(_is_number, numbers)):
                return Description(http, rpc, gossip, host, rack, version, BrokerLoad(*numbers))
    raise FormatError("a description that is none")


def _is_number(value: Any) -> bool:
    return type(value) is int and -1 <= value <= _NUMBER_MAX
