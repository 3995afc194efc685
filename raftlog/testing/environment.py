"""The environment of a broker's process: that of this program, and what was asked for beside it.

Variables of raftlog do not come from this program, whose settings are not the broker's. Libraries that are to be loaded
first (`LD_PRELOAD`) add up; of every other variable the last word counts.
"""

from collections.abc import Mapping
from typing import Final

PRELOAD: Final = "LD_PRELOAD"
_OWN_PREFIX: Final = "RAFTLOG_"


def joined(*given: Mapping[str, str]) -> dict[str, str]:
    """All of them in one."""
    one: dict[str, str] = {}
    for each in given:
        libraries = [one[PRELOAD]] if one.get(PRELOAD) else []
        one |= each
        if each.get(PRELOAD):
            one[PRELOAD] = ":".join([*libraries, each[PRELOAD]])
        elif libraries:
            one[PRELOAD] = libraries[0]
    return one


def inherited(environment: Mapping[str, str]) -> dict[str, str]:
    """What a broker takes over."""
    return {name: value for name, value in environment.items() if not name.startswith(_OWN_PREFIX)}
