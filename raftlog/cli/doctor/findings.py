"""Result of one check of a machine."""

from typing import Final, Literal, NamedTuple

OK: Final = "ok"
WARNING: Final = "warning"
PROBLEM: Final = "problem"
Level = Literal["ok", "warning", "problem"]


class Finding(NamedTuple):
    """Result of a check; `advice` is empty at the level `ok`. With the level `problem` a broker cannot start."""

    check: str
    level: Level
    text: str
    advice: str = ""
