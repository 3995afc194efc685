"""Subscriptions by pattern: a regular expression that has to match the whole name of a topic.

RE2 runs in time linear in the name, whatever clients send: Python's own `re` can be made to run for hours. RE2 has no
look-around and no back-references.
"""

import asyncio
from collections.abc import Iterable
from typing import Final

import re2

from raftlog.errors import InvalidArgument

PATTERN_CHARACTERS_MAX: Final = 1_000
_MEMORY_BYTES: Final = 256 * 1024
"""Memory limit of one compiled pattern; the library keeps the last 128."""
_NAMES_PER_SLICE: Final = 200
"""Names matched before other tasks run, at about 8 µs each."""


class TopicPattern:
    """Compiled topic pattern. Raises `InvalidArgument` for an invalid pattern."""

    def __init__(self, text: str) -> None:
        """Compile a pattern in RE2 syntax. Raises `InvalidArgument` if it is empty, too long or malformed."""
        if not text:
            raise InvalidArgument("topic_pattern is empty and matches no topic; use .* for all topics")
        if len(text) > PATTERN_CHARACTERS_MAX:
            raise InvalidArgument(
                f"a topic_pattern of {len(text)} characters is too long; it can have {PATTERN_CHARACTERS_MAX}"
            )
        options = re2.Options()
        options.max_mem, options.log_errors, options.never_capture = _MEMORY_BYTES, False, True
        try:
            self._compiled = re2.compile(text, options)
        except (re2.error, UnicodeEncodeError) as error:
            why = error.args[0].decode(errors="replace") if error.args and type(error.args[0]) is bytes else error
            raise InvalidArgument(
                f"topic_pattern {text!r} cannot be used: {why} (RE2 syntax: without look-around and back-references)"
            ) from None

    async def matching(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the matching names, sorted; other tasks run in between."""
        found = []
        for number, name in enumerate(names, 1):
            if self._compiled.fullmatch(name):
                found.append(name)
            if not number % _NAMES_PER_SLICE:
                await asyncio.sleep(0)
        return tuple(sorted(found))
