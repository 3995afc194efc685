"""Header value and answer of each request by name, as docs/REPLICATION.md describes them."""

from typing import Any, Final


class Rows(list[Any]):
    """List of any length whose first item is a sample of all; other lists have as many items as their sample."""


def make_plain(value: Any) -> Any:
    """Return the value with all its lists as plain lists."""
    if isinstance(value, list):
        return [make_plain(each) for each in value]
    return {name: make_plain(each) for name, each in value.items()} if isinstance(value, dict) else value


def find_difference(sample: Any, found: Any, at: str = "") -> str | None:
    """Return where the shape of real traffic differs from its sample, or None; nil matches anything."""
    if sample is None or found is None:
        return None
    if type(found) is tuple:
        found = list(found)
    if isinstance(sample, list) and isinstance(found, list):
        if isinstance(sample, Rows):
            pairs = [(sample[0], each) for each in found]
        elif len(sample) == len(found):
            pairs = list(zip(sample, found, strict=True))
        else:
            return f"{at}: {len(found)} fields and not {len(sample)}"
        return next(
            (why for number, pair in enumerate(pairs) if (why := find_difference(*pair, f"{at}[{number}]"))), None
        )
    if isinstance(sample, dict) and isinstance(found, dict):
        if sample.keys() != found.keys():
            return f"{at}: the fields {sorted(found)} and not {sorted(sample)}"
        return next(
            (why for name in sample if (why := find_difference(sample[name], found[name], f"{at}.{name}"))), None
        )
    numbers = (int, float)
    same = type(sample) is type(found) or (type(sample) in numbers and type(found) in numbers)
    same = same or (isinstance(sample, bool | int | str | bytes) and isinstance(found, type(sample)))
    return None if same else f"{at}: {type(found).__name__} and not {type(sample).__name__}"


TOPIC: Final = bytes(15) + b"\x07"
GROUP: Final = bytes(15) + b"\x05"
DISK: Final = bytes(15) + b"\x01"
HASH: Final = bytes(16)
MEMBER: Final = [1, "00000000-0000-0000-0000-00000000d001", "h:2"]
RECORD: Final = {
    "cluster_id": "00000000-0000-0000-0000-0000000000c1",
    "seeds": Rows([MEMBER]),
    "addresses": Rows(["h:2"]),
    "created_ms": 1_700_000_000_000,
    "feature_level": 1,
}
REGISTRATION: Final = [1, DISK, 3, "host-1", ["h:1", "h:2", "h:3"], 1, 1, False, GROUP]
STATUS: Final = {
    "version": "0.2.0",
    "disk": {"path": "/data", "free": 10, "total": 20, "reserve": 5, "filling_per_s": 1},
    "is_working": True,
    "problem": "full",
    "uptime_s": 7,
    "moving": 0,
    "notes": Rows(["insecure"]),
}

REQUESTS: Final[dict[str, tuple[Any, Any]]] = {
    "data.produce": ([TOPIC, 3, -1], [10, 12, 2, 12]),
    "data.produce_transaction": ([TOPIC, 3, 500, {"transactional_id": "tx"}], [10, 12, 2, 12]),
    "data.traced_produce": (
        [TOPIC, 3, -1, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"],
        [10, 12, 2, 12],
    ),
    "data.fetch": ([TOPIC, 3, 500, {"offset": 7, "max_bytes": 1_000, "min_bytes": 1}], [12, 0, 2]),
    "data.offsets": ([TOPIC, 3, 500, {"linearizable": True}], [0, 12]),
    "data.timestamp": ([TOPIC, 3, 500, {"timestamp": 1_700_000_000_000}], [7, 1_700_000_000_001]),
    "data.end_transaction": ([TOPIC, 3, 500, {"marker": [9, 2, True, 5, 7]}], None),
    "data.trim": ([TOPIC, 3, 500, {"before": 7}], [7]),
    "view.partitions": (
        Rows([GROUP]),
        Rows(
            [
                [
                    1,
                    2,
                    Rows([1, 2]),
                    Rows([1]),
                    12,
                    0,
                    "damaged",
                    Rows([[2, 3, 300, 50]]),
                    40,
                    Rows([[2, "its CRC"]]),
                    4_096,
                ]
            ]
        ),
    ),
    "view.broker": (None, STATUS),
    "control.submit": (b"request", [9, 5, ["InvalidArgument", False, ["no"]]]),
    "control.basis": (None, 9),
    "control.hash": ([9, HASH], True),
    "control.join": (None, ["member", "h:2", Rows(["h:2"]), RECORD, Rows([MEMBER])]),
    "control.bootstrap": (RECORD, None),
    "control.replace": ([3_000, REGISTRATION], ["later", "it answers"]),
    "moves.membership": ([GROUP, DISK], True),
    "balancing.moving": (
        [9, Rows([GROUP]), True],
        [3, Rows([[GROUP, Rows([2]), Rows([1])]]), Rows([GROUP]), HASH, True],
    ),
    "balancing.report": (
        None,
        ["ready", "continuous", Rows([1]), Rows([2]), 1.5, 0, 2, Rows(["why"]), Rows([["t", 0, 3, "no host"]])],
    ),
    "balancing.rebalance": (None, 2),
    "operations.broker": (None, [9, False, 3, 2, 1, 0, 0, Rows(["t/0"]), 1_000, 0]),
    "operations.moves": (
        [9],
        [Rows([[GROUP, True, 2, Rows([1]), Rows([2]), 1_000, Rows([[2, -1, 50]]), "why"]]), HASH],
    ),
    "operations.applied": ([12], 13),
    "operations.transfer": ([GROUP, -1, 500], 2),
    "operations.restore": ([TOPIC, 3], [10, 12, 2, 12]),
    "node.fitness": ([1_000, False], None),
    "node.leaving": (None, None),
    "recover.look": (
        [GROUP],
        [
            [1, DISK],
            2,
            False,
            1,
            [6, 2],
            [6, 2],
            0,
            12,
            Rows([[1, DISK]]),
            Rows([[2, DISK]]),
            "damaged",
            Rows([[3, 4, "its CRC"]]),
        ],
    ),
    "recover.claim": ([GROUP], None),
    "recover.give_up": ([GROUP], Rows(["/data/.raftlog/damaged/x"])),
    "recover.go_on": ([GROUP, 2], [Rows([[3, 4]]), Rows(["/data/.raftlog/damaged/x"])]),
}
