"""Lines that break a rule of the prose check and stay, each with its reason."""

from typing import Final

ALLOWED: Final[dict[str, str]] = {}

PENDING: Final[tuple[str, ...]] = ()
"""Files and directories whose lines are not rewritten yet."""
