"""Rule for the names of consumer groups."""

import re

from raftlog.errors import InvalidGroup

_GROUP = re.compile(r"[^\x00-\x1f\x7f/\ud800-\udfff]{1,255}")


def check_group(name: str) -> None:
    """Raise `InvalidGroup` for an invalid name of a group."""
    if not _GROUP.fullmatch(name):
        raise InvalidGroup("a group name has 1 to 255 characters, no slash and no control characters")
