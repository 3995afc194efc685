"""Options of data sources: text by name, in any case, as Spark hands it over; read with errors that say what is wrong.

Every source names the options that it knows; another one is refused with the nearest that there is, so that a typing
error never passes for a default. What Spark itself adds (a checkpoint's place, a path) is let through. Pure.
"""

import difflib
import re
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

import re2

from raftlog.errors import InvalidArgument

SPARK_OPTIONS: Final = frozenset(
    name.lower()
    for name in (
        "checkpointLocation",
        "outputMode",
        "path",
        "paths",
        "provider",
        "queryName",
        "serialization.format",
    )
)
"""What Spark hands to a source besides what its user gave."""
_OF_KAFKA: Final = {
    "subscribe": "topics",
    "subscribepattern": "topicsPattern",
    "assign": "topics",
    "kafka.bootstrap.servers": "bootstrap",
    "bootstrap.servers": "bootstrap",
    "startingoffset": "startingOffsets",
}
"""What Spark's source for Kafka calls these options."""
PATTERN_CHARS_MAX: Final = 1_000
_PATTERN_BYTES_MAX: Final = 1 << 20
_TRUTHS: Final = {"true": True, "false": False}
_NUMBER: Final = re.compile(r"-?\d{1,19}", re.ASCII)
_SIZE: Final = re.compile(r"(\d{1,18})\s*([kmg]?)(?:i?b)?", re.ASCII | re.IGNORECASE)
_UNITS: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


class Options:
    """The options of one use of a source. All methods raise `InvalidArgument`."""

    def __init__(
        self, source: str, given: Mapping[str, str], known: Collection[str], let_through: Collection[str] = ()
    ) -> None:
        """`known` are spelled as documents spell them; `let_through` are others that are not looked at."""
        self._source = source
        self._names = {name.lower(): name for name in known}
        self._values = {name.lower(): value for name, value in given.items()}
        passing = SPARK_OPTIONS | {name.lower() for name in let_through}
        for name in self._values:
            if name not in self._names and name not in passing:
                raise InvalidArgument(self._unknown(name))

    def _unknown(self, name: str) -> str:
        meant = _OF_KAFKA.get(name, "").lower()
        near = [meant] if meant in self._names else difflib.get_close_matches(name, self._names, n=1)
        known = (
            f"did you mean {self._names[near[0]]}?" if near else f"it knows {', '.join(sorted(self._names.values()))}"
        )
        return f"the data source {self._source} has no option {name}; {known}"

    def has(self, name: str) -> bool:
        return name.lower() in self._values

    def one_of(self, *names: str) -> str | None:
        """Which of these was given; at most one may be."""
        given = [name for name in names if self.has(name)]
        if len(given) > 1:
            raise InvalidArgument(f"the options {' and '.join(given)} exclude each other: give one of them")
        return given[0] if given else None

    def text(self, name: str, default: str | None = None) -> str:
        """Raises when there is no default and it was not given, or is empty."""
        value = self._values.get(name.lower(), default)
        if value is None or not value.strip():
            raise InvalidArgument(f"the data source {self._source} needs the option {name}")
        return value.strip()

    def number(self, name: str, default: int, least: int, greatest: int) -> int:
        given = self.maybe_number(name, least, greatest)
        return default if given is None else given

    def maybe_number(self, name: str, least: int, greatest: int) -> int | None:
        """None where it was not given."""
        if not self.has(name):
            return None
        text = self.text(name)
        value = int(text) if _NUMBER.fullmatch(text) else least - 1
        if not least <= value <= greatest:
            raise InvalidArgument(f"the option {name} is a whole number from {least} to {greatest}, not {text!r}")
        return value

    def size(self, name: str, default: int, least: int, greatest: int) -> int:
        """Bytes: `8388608`, `8192k` or `8m`."""
        if not self.has(name):
            return default
        text = self.text(name)
        match = _SIZE.fullmatch(text)
        value = int(match[1]) * _UNITS[match[2].lower()] if match else -1
        if not least <= value <= greatest:
            raise InvalidArgument(f"the option {name} is a number of bytes from {least} to {greatest}, not {text!r}")
        return value

    def flag(self, name: str, default: bool) -> bool:
        if not self.has(name):
            return default
        text = self.text(name)
        if text.lower() not in _TRUTHS:
            raise InvalidArgument(f"the option {name} is true or false, not {text!r}")
        return _TRUTHS[text.lower()]

    def choice(self, name: str, default: str, choices: Collection[str]) -> str:
        if not self.has(name):
            return default
        text = self.text(name).lower()
        if text not in choices:
            raise InvalidArgument(f"the option {name} is one of {', '.join(choices)}, not {text!r}")
        return text

    def names(self, name: str) -> tuple[str, ...]:
        """Comma separated, each once."""
        found = [part.strip() for part in self.text(name).split(",")]
        if not all(found) or len(set(found)) < len(found):
            raise InvalidArgument(f"the option {name} lists names, each once, with commas between; not {found}")
        return tuple(found)


class TopicChoice(NamedTuple):
    """Topics by name, or all whose whole names match a pattern, or, with neither, all; internal ones never."""

    names: tuple[str, ...] | None = None
    pattern: str | None = None

    def chosen(self, there: Collection[str]) -> list[str]:
        """Of the topics that are there, sorted; names that are not among them are the caller's to miss. Raises
        `InvalidArgument`."""
        if self.names is not None:
            return sorted(set(self.names) & set(there))
        if self.pattern is None:
            return sorted(there)
        matches = compiled_pattern(self.pattern)
        return sorted(name for name in there if matches.fullmatch(name))

    def __str__(self) -> str:
        if self.names is not None:
            return "topics " + ", ".join(self.names)
        return "all topics" if self.pattern is None else f"topics that match {self.pattern}"


def topic_choice(options: Options, *, is_needed: bool = True) -> TopicChoice:
    """From the options `topics` and `topicsPattern`; raises `InvalidArgument`."""
    which = options.one_of("topics", "topicsPattern")
    if which == "topics":
        return TopicChoice(names=options.names(which))
    if which == "topicsPattern":
        pattern = options.text(which)
        compiled_pattern(pattern)
        return TopicChoice(pattern=pattern)
    if is_needed:
        raise InvalidArgument("say which topics: the option topics (a,b) or topicsPattern (orders-.*)")
    return TopicChoice()


def compiled_pattern(text: str) -> "re2.Pattern[str]":
    """RE2 takes linear time, whatever the pattern; raises `InvalidArgument`."""
    options = re2.Options()
    options.max_mem = _PATTERN_BYTES_MAX
    options.log_errors = False
    if len(text) > PATTERN_CHARS_MAX:
        raise InvalidArgument(f"a pattern of {len(text)} characters; it may have {PATTERN_CHARS_MAX}")
    try:
        return re2.compile(text, options)
    except (re2.error, UnicodeEncodeError) as error:
        why = error.args[0].decode(errors="replace") if error.args and type(error.args[0]) is bytes else error
        raise InvalidArgument(f"{text!r} is not a pattern of topics in RE2's syntax: {why}") from None
