"""Options of data sources, texts by name as Spark passes them, and their parser; errors name the option.

Every source has a table of its options, each with the field of its settings and the kind of its value (`number`,
`size`, `choice`, …); defaults are those of the fields. An unknown option is refused with the most similar known name,
so that a misspelt option is not replaced by a default. Options that Spark adds (a checkpoint's location, a path) are
accepted. Pure."""

import difflib
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, NamedTuple, TypeVar

import re2

from raftlog.client import BrokerAddresses
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
"""Options that Spark adds to those of the user."""
_KAFKA_NAMES: Final = {
    "subscribe": "topics",
    "subscribepattern": "topicsPattern",
    "assign": "topics",
    "kafka.bootstrap.servers": "bootstrap",
    "bootstrap.servers": "bootstrap",
    "startingoffset": "startingOffsets",
}
"""Names of Spark's Kafka source for options with the same meaning, for the hint in errors."""
CONNECTION_OPTIONS: Final = {
    "ca": "ca",
    "clientCertificate": "certificate",
    "clientKey": "key",
    "user": "user",
    "passwordFile": "password_file",
}
"""Options of connections, and their arguments of `BrokerAddresses`; Spark shows paths of files, never a password."""
PATTERN_CHARS_MAX: Final = 1_000
_PATTERN_BYTES_MAX: Final = 1 << 20
_NUMBER: Final = re.compile(r"-?\d{1,19}", re.ASCII)
_SIZE: Final = re.compile(r"(\d{1,18})\s*([kmg]?)(?:i?b)?", re.ASCII | re.IGNORECASE)
_UNITS: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


T = TypeVar("T")


@dataclass(frozen=True)
class OptionKind(Generic[T]):
    """Kind of option values.

    `read` parses a text, and returns None for an invalid one. `wanted` describes valid texts in errors."""

    wanted: str
    read: Callable[[str], T | None]


class SourceOption(NamedTuple):
    """Option of a data source, with the field of the settings that it sets; a required one has no default."""

    field: str
    kind: OptionKind[Any]
    is_needed: bool = False


OptionTable = Mapping[str, SourceOption]
"""Options by name, spelled as in the documentation."""


def number(least: int, highest: int) -> OptionKind[int]:
    """Return the kind of whole numbers from `least` to `highest`."""

    def read(text: str) -> int | None:
        """Return the number in the text; None if it is not a number in the bounds."""
        value = int(text) if _NUMBER.fullmatch(text) else least - 1
        return value if least <= value <= highest else None

    return OptionKind(f"a whole number from {least} to {highest}", read)


def size(least: int, highest: int) -> OptionKind[int]:
    """Return the kind of a number of bytes: `8388608`, `8192k` or `8m`."""

    def read(text: str) -> int | None:
        """Return the number of bytes in the text, such as "64 MiB"; None if it is not a size in the bounds."""
        match = _SIZE.fullmatch(text)
        value = int(match[1]) * _UNITS[match[2].lower()] if match else least - 1
        return value if least <= value <= highest else None

    return OptionKind(f"a number of bytes from {least} to {highest}", read)


def choice(values: Mapping[str, T]) -> OptionKind[T]:
    """Return the kind of option whose value is one of some words, ignoring case.

    `values` maps each word, in lower case, to the value that it stands for."""
    return OptionKind(f"one of {', '.join(values)}", lambda text: values.get(text.lower()))


def _parse_names(text: str) -> tuple[str, ...] | None:
    """Return the names in a list with commas; None if one is empty or occurs twice."""
    found = tuple(part.strip() for part in text.split(","))
    return found if all(found) and len(set(found)) == len(found) else None


TEXT: Final = OptionKind[str]("a text", str)
NAMES: Final = OptionKind("names, each once, with commas between", _parse_names)
FLAG: Final = OptionKind[bool]("true or false", lambda text: {"true": True, "false": False}.get(text.lower()))
SKIPS: Final = choice({"fail": False, "skip": True})
"""Whether unreadable records are skipped."""


class Options:
    """Parser of the options of one use of a source. All methods raise `InvalidArgument`."""

    def __init__(
        self, source: str, given: Mapping[str, str], known: Collection[str], accepted: Collection[str] = ()
    ) -> None:
        """Check the names of all options.

        `known` are spelled as in the documentation; `accepted` are other names that are accepted and ignored."""
        self._source = source
        self._names = {name.lower(): name for name in known}
        self._values = {name.lower(): value for name, value in given.items()}
        passing = SPARK_OPTIONS | {name.lower() for name in accepted}
        for name in self._values:
            if name not in self._names and name not in passing:
                raise InvalidArgument(self._unknown_error(name))

    def _unknown_error(self, name: str) -> str:
        """Return the error text for an unknown option, with the most similar known name."""
        meant = _KAFKA_NAMES.get(name, "").lower()
        near = [meant] if meant in self._names else difflib.get_close_matches(name, self._names, n=1)
        known = f"did you mean {self._names[near[0]]}?" if near else f"it has {', '.join(sorted(self._names.values()))}"
        return f"the data source {self._source} has no option {name}; {known}"

    def has(self, name: str) -> bool:
        """Return whether the option is given; the case of its name does not count."""
        return name.lower() in self._values

    def find_one_of(self, *names: str) -> str | None:
        """Return the name of the given option among these, or None; they exclude each other."""
        given = [name for name in names if self.has(name)]
        if len(given) > 1:
            raise InvalidArgument(f"the options {' and '.join(given)} exclude each other: give one of them")
        return given[0] if given else None

    def text(self, name: str) -> str:
        """Return the value of an option. Raises `InvalidArgument` if it is missing or empty."""
        value = self._values.get(name.lower(), "").strip()
        if not value:
            raise InvalidArgument(f"the data source {self._source} needs the option {name}")
        return value

    def read(self, name: str, kind: OptionKind[T]) -> T:
        """Return the value of an option; raises as `text`, and for a text of another kind."""
        text = self.text(name)
        value = kind.read(text)
        if value is None:
            raise InvalidArgument(f"the option {name} is {kind.wanted}, not {text!r}")
        return value

    def fields(self, table: OptionTable) -> dict[str, Any]:
        """Return the values of all given or required options, by field."""
        return {
            option.field: self.read(name, option.kind)
            for name, option in table.items()
            if option.is_needed or self.has(name)
        }


def read_bootstrap(options: Options) -> Sequence[str]:
    """Return the addresses of brokers, with the files and the user of the connections, where they are given."""
    addresses = options.read("bootstrap", NAMES)
    given = {field: options.text(name) for name, field in CONNECTION_OPTIONS.items() if options.has(name)}
    return BrokerAddresses(addresses, **given) if given else addresses


def connection_options(bootstrap: Sequence[str]) -> dict[str, str]:
    """Return the options of a data source that connects to these addresses as `read_bootstrap` returned them."""
    found = {"bootstrap": ",".join(bootstrap)}
    if isinstance(bootstrap, BrokerAddresses):
        ca, certificate, key = bootstrap.tls
        values = (ca, certificate, key, bootstrap.user, bootstrap.password_file)
        given = dict(zip(CONNECTION_OPTIONS, values, strict=True))
        found |= {name: value for name, value in given.items() if value is not None}
    return found


def as_names(names: Sequence[str]) -> tuple[str, ...]:
    """Return names as a tuple; a single text is one name."""
    return (names,) if isinstance(names, str) else tuple(names)


class TopicChoice(NamedTuple):
    """Choice of topics: by name, by a pattern for whole names, or, with neither, all; never internal topics."""

    names: tuple[str, ...] | None = None
    pattern: str | None = None

    @classmethod
    def from_arguments(cls, topics: Sequence[str] | None, pattern: str | None = None) -> "TopicChoice":
        """Return the choice from the arguments of a job; raises `InvalidArgument`."""
        if topics is not None and pattern is not None:
            raise InvalidArgument("name topics or give a pattern, not both")
        if topics is not None and not topics:
            raise InvalidArgument("no topics are named; leave topics out for all of them")
        return cls(None if topics is None else as_names(topics), pattern)

    def select(self, existing: Collection[str]) -> list[str]:
        """Return the chosen topics among the existing ones, sorted.

        Names that do not exist are left out; the caller reports them. Raises `InvalidArgument`."""
        if self.names is not None:
            return sorted(set(self.names) & set(existing))
        if self.pattern is None:
            return sorted(existing)
        matches = compile_pattern(self.pattern)
        return sorted(name for name in existing if matches.fullmatch(name))

    def __str__(self) -> str:
        if self.names is not None:
            return "topics " + ", ".join(self.names)
        return "all topics" if self.pattern is None else f"topics that match {self.pattern}"


def topic_choice(options: Options, *, is_needed: bool = True) -> TopicChoice:
    """Parse the options `topics` and `topicsPattern`; raises `InvalidArgument`."""
    which = options.find_one_of("topics", "topicsPattern")
    if which == "topics":
        return TopicChoice(names=options.read(which, NAMES))
    if which == "topicsPattern":
        pattern = options.text(which)
        compile_pattern(pattern)
        return TopicChoice(pattern=pattern)
    if is_needed:
        raise InvalidArgument("no topics are chosen: give the option topics (a,b) or topicsPattern (orders-.*)")
    return TopicChoice()


def compile_pattern(text: str) -> "re2.Pattern[str]":
    """Compile a pattern with RE2, which takes linear time for every pattern; raises `InvalidArgument`."""
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
