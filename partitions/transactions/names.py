"""Rule for transactional ids."""

import re
from typing import Final

from raftlog.errors import InvalidArgument

_ID: Final = re.compile(r"[^\x00-\x1f\x7f/\ud800-\udfff]{1,255}")


def check_transactional_id(name: str) -> None:
    """Raise `InvalidArgument` for an invalid transactional id."""
    if not _ID.fullmatch(name) or name in (".", ".."):
        raise InvalidArgument(
            "a transactional id has 1 to 255 characters, no slash and no control characters, and is not '.' or '..'"
        )
