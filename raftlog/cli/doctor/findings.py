"""Result of one check of a machine."""

from typing import Final, Literal, NamedTuple

OK: Final = "ok"
WARNING: Final = "warning"
PROBLEM: Final = "problem"
Level = Literal["ok", "warning", "problem"]


class Finding(NamedTuple):
    """Result of a check; `advice` is empty if all is well. A problem keeps a broker from starting."""

    check: str
    level: Level
    text: str
    advice: str = ""
