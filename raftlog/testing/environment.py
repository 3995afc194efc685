"""Environment of a broker's process: the environment of this program, and additions.

Variables of raftlog are not inherited, since the settings of this program are not the broker's. Libraries to
preload (`LD_PRELOAD`) add up; for every other variable the last value counts."""

from collections.abc import Mapping
from typing import Final

PRELOAD: Final = "LD_PRELOAD"
_OWN_PREFIX: Final = "RAFTLOG_"


def merge_environments(*given: Mapping[str, str]) -> dict[str, str]:
    """Merge environments: later values replace earlier ones, except that values of `LD_PRELOAD` add up."""
    one: dict[str, str] = {}
    for each in given:
        libraries = [one[PRELOAD]] if one.get(PRELOAD) else []
        one |= each
        if each.get(PRELOAD):
            one[PRELOAD] = ":".join([*libraries, each[PRELOAD]])
        elif libraries:
            one[PRELOAD] = libraries[0]
    return one


def select_inherited(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a broker inherits: all except those of raftlog."""
    return {name: value for name, value in environment.items() if not name.startswith(_OWN_PREFIX)}
