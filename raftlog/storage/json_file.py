"""Small files with one JSON object, and a CRC-32C over the rest of it: their one reader.

    size ≤ BYTES_MAX → UTF-8 → a JSON object → checksum → `format` and `kind` → the fields, by type

A failure before the version is known is damage (`SmallFileDamaged`): the checksum is computed in the same way in all
versions of these files, so a version with a matching checksum is genuine. Each error has the file and the problem; the
caller adds the remedy, which depends on the purpose of the file. Called by `directory` for meta files, and by
`runtime.log.sealed_file` for the files of a node."""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar
from uuid import UUID

from crc32c import crc32c

from raftlog.errors import FormatError, SmallFileDamaged
from raftlog.storage.disk import Disk, File
from raftlog.types import interned_uuid

BYTES_MAX: Final = 4 << 20
NUMBER_MAX: Final = (1 << 63) - 1
_STAGED: Final = ".new"
_SHOWN_MAX: Final = 80
_MISSING: Final = object()
T = TypeVar("T")


class JsonFile:
    """Fields of one file; each method raises `SmallFileDamaged` for a field that is missing or of another type."""

    def __init__(self, path: str, format_version: int, kind: str, fields: Mapping[str, Any]) -> None:
        self.path, self.format_version, self.kind = path, format_version, kind
        self.fields = fields
        """Content of the file beside `format`, `kind` and `crc32c`; not checked."""

    def text(self, name: str) -> str:
        return self._typed(name, str, "a text")

    def text_or_none(self, name: str, default: Any = _MISSING) -> str | None:
        value = self.fields.get(name, default)
        return None if value is None else value if type(value) is str else self._typed(name, str, "a text or null")

    def number(self, name: str, at_least: int = 0) -> int:
        """Return an integer of at most 63 bits."""
        value = self._typed(name, int, "a whole number")
        if not at_least <= value <= NUMBER_MAX:
            raise self.wrong(name, f"a number from {at_least} to {NUMBER_MAX}")
        return value

    def flag(self, name: str, default: Any = _MISSING) -> bool:
        value = self.fields.get(name, default)
        return value if type(value) is bool else self._typed(name, bool, "true or false")

    def items(self, name: str, default: Any = _MISSING) -> list[Any]:
        value = self.fields.get(name, default)
        return value if type(value) is list else self._typed(name, list, "a list")

    def uuid(self, name: str) -> UUID:
        return self.parsed(name, uuid_of, "a uuid")

    def parsed(self, name: str, parse: Callable[[Any], T], expected: str, default: Any = _MISSING) -> T:
        """Return `parse` of the field; it raises `ValueError`, `TypeError`, `KeyError` or `FormatError`."""
        value = self.fields.get(name, default)
        if value is _MISSING:
            raise self.wrong(name, expected)
        try:
            return parse(value)
        except (ValueError, TypeError, KeyError, FormatError):
            raise self.wrong(name, expected) from None

    def _typed(self, name: str, kind: type[T], expected: str) -> T:
        value = self.fields.get(name)
        if type(value) is not kind:  # a bool is not accepted as a number
            raise self.wrong(name, expected)
        return value

    def wrong(self, name: str, expected: str) -> SmallFileDamaged:
        """Return the error for a field that is not `expected`."""
        found = f"is {_shown(repr(self.fields[name]))}, not {expected}" if name in self.fields else "is missing"
        return SmallFileDamaged(f"{self.path} is damaged: its field {name!r} {found}")


def read_json_file(disk: Disk, path: str) -> JsonFile | None:
    """Read a file whose checksum matches, of any kind and version; return None without a file.

    Raises `SmallFileDamaged`, `OSError`."""
    if not disk.exists(path):
        return None
    file = disk.open(path, read_only=True)
    try:
        size = file.size()
        content = file.read(0, min(size, BYTES_MAX))
    finally:
        file.close()
    if size > BYTES_MAX:
        raise SmallFileDamaged(f"{path} is damaged: it has {size} bytes, at most {BYTES_MAX} are allowed")
    try:
        fields = _object_in(content)
        stated = fields.pop("crc32c")
        if stated != checksum_of(fields):
            raise ValueError("its checksum does not match")
        version, kind = fields.pop("format"), fields.pop("kind")
    except KeyError as error:
        raise SmallFileDamaged(f"{path} is damaged: its field {error} is missing") from None
    except (ValueError, RecursionError) as error:
        raise SmallFileDamaged(f"{path} is damaged: {error}") from None
    if type(version) is not int or type(kind) is not str:
        raise SmallFileDamaged(f"{path} is damaged: its format is {_shown(repr(version))} of kind {_shown(repr(kind))}")
    return JsonFile(path, version, kind, fields)


def _object_in(content: bytes) -> dict[str, Any]:
    """Return the JSON object in a file; raises `ValueError` with the file's content if there is none."""
    if not content:
        raise ValueError("it is empty")
    try:
        found = json.loads(content.decode())
    except UnicodeDecodeError as error:
        raise ValueError(f"its byte {error.start} is no UTF-8; it holds {_shown(repr(content))}") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"it is no JSON ({error.msg} at {error.pos}); it holds {_shown(repr(content))}") from None
    if type(found) is not dict:
        raise ValueError(f"it holds {_shown(repr(found))}, and not a JSON object")
    return found


def write_json(fields: Mapping[str, Any]) -> bytes:
    """Return the content of a file with these fields, and its checksum."""
    return json.dumps({**fields, "crc32c": checksum_of(fields)}).encode() + b"\n"


def stage_json(disk: Disk, path: str, fields: Mapping[str, Any]) -> File:
    """Write a file under a temporary name; once the caller synced and closed it, `place_json` renames it."""
    beside = path + _STAGED
    if disk.exists(beside):
        disk.unlink(beside)
    file = disk.open(beside, create=True)
    try:
        file.write(0, [write_json(fields)])
    except BaseException:
        file.close()
        raise
    return file


def place_json(disk: Disk, path: str) -> None:
    """Rename the synced file to its place; durable by the sync of its directory."""
    disk.rename(path + _STAGED, path)


def replace_json(disk: Disk, path: str, fields: Mapping[str, Any]) -> None:
    """Replace the file at `path`, durably; blocking. Raises `OSError`."""
    file = stage_json(disk, path, fields)
    try:
        disk.sync([file])
    finally:
        file.close()
    place_json(disk, path)
    disk.sync([], [path.rpartition("/")[0]])


def checksum_of(fields: Mapping[str, Any]) -> int:
    return int(crc32c(json.dumps(fields, sort_keys=True).encode()))


def uuid_of(value: Any) -> UUID:
    """Return a uuid in its usual form; raises `ValueError`."""
    if type(value) is not str or str(UUID(value)) != value:
        raise ValueError(f"{value!r} is not a uuid")
    return interned_uuid(UUID(value).bytes)


def _shown(text: str) -> str:
    return text if len(text) <= _SHOWN_MAX else f"{text[: _SHOWN_MAX - 1]}…"
