"""Checks of the content of commits and snapshots, before anything is read, moved or deleted because of them.

A process that can write to an archive's directory can write a manifest with a correct checksum. So every path in a
manifest must be relative, below the archive, and in exactly the form that raftlog writes: `../x`, `/any/file` or
`topic=a/../../b` are refused. Types and ranges of numbers are declared, and msgspec checks them. The functions check
names and paths: they return the value, or raise `ValueError`. Called by `manifest` and `state`."""

import re
from datetime import date
from typing import Annotated, Any, Final

from msgspec import Meta

INT64_MAX: Final = (1 << 63) - 1
PARTITION_MAX: Final = (1 << 31) - 1
TOPIC_BYTES_MAX: Final = 255
"""Maximum bytes of a topic's name, which is also the name of a directory."""
NO_DATE: Final = "__HIVE_DEFAULT_PARTITION__"
"""Name of Spark and Hive for the partition of null."""
_UUID: Final = re.compile(r"\A[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z", re.ASCII)
_ROWS: Final = re.compile(r"topic=([^/\0]+)/partition=(\d{1,10})/date=([^/]+)/(\d{20})-(\d{20})\.parquet", re.ASCII)
_SHOWN_CHARS: Final = 200

Count = Annotated[int, Meta(ge=0, le=INT64_MAX)]
PartitionNumber = Annotated[int, Meta(ge=0, le=PARTITION_MAX)]
UuidText = Annotated[str, Meta(pattern=_UUID.pattern)]


def check_topic_name(value: Any) -> str:
    """Return a topic name that is also a valid name of a directory; raises `ValueError` for other values."""
    if type(value) is not str or value in ("", ".", "..") or "/" in value or "\0" in value:
        raise ValueError(f"{_shorten(value)} is no name of a topic")
    if len(value.encode(errors="surrogatepass")) > TOPIC_BYTES_MAX:
        raise ValueError(f"{_shorten(value)} is longer than a name of a topic may be")
    return value


def check_day(value: Any) -> str:
    """Return a day in the format of `day_of`; raises `ValueError`."""
    if value == NO_DATE:
        return NO_DATE
    try:
        if type(value) is str and date.fromisoformat(value).isoformat() == value:
            return value
    except ValueError:
        pass  # raised below with its name
    raise ValueError(f"{_shorten(value)} is no date of a file")


def path_of(topic: str, partition: int, date_: str, first: int, last: int) -> str:
    """Return the path of a file of rows, relative to the archive."""
    return f"topic={topic}/partition={partition}/date={date_}/{first:020d}-{last:020d}.parquet"


def check_rows_path(value: Any) -> str:
    """Return a path in the format of `path_of`; raises `ValueError`."""
    match = _ROWS.fullmatch(value) if type(value) is str else None
    if match is not None:
        topic, partition, date_, first, last = match.groups()
        own = path_of(check_topic_name(topic), int(partition), check_day(date_), int(first), int(last))
        if own == value and int(partition) <= PARTITION_MAX and int(first) <= int(last) <= INT64_MAX:
            return own
    raise ValueError(f"{_shorten(value)} is no path of a file of an archive")


def check_staged_path(value: Any, staging: str) -> str:
    """Return the path of a staged file in the directory `staging`; raises `ValueError`."""
    stem = value.removeprefix(f"{staging}/").removesuffix(".parquet") if type(value) is str else ""
    if not _UUID.fullmatch(stem) or value != f"{staging}/{stem}.parquet":
        raise ValueError(f"{_shorten(value)} is no path of a file in {staging}")
    return str(value)


def _shorten(value: Any) -> str:
    """Return the representation of a value, cut for an error text."""
    shown = repr(value)
    return shown if len(shown) <= _SHOWN_CHARS else f"{shown[:_SHOWN_CHARS]}…"
