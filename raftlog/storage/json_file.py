"""Reader and writer of small files with one JSON object, which includes a CRC-32C over its other fields.

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
from raftlog.types import intern_uuid

BYTES_MAX: Final = 4 << 20
NUMBER_MAX: Final = (1 << 63) - 1
_STAGED: Final = ".new"
_SHOWN_MAX: Final = 80
_MISSING: Final = object()
T = TypeVar("T")


class JsonFile:
    """Checked access to the fields of one JSON file; raises `SmallFileDamaged` for a missing or mistyped field."""

    def __init__(self, path: str, format_version: int, kind: str, fields: Mapping[str, Any]) -> None:
        self.path, self.format_version, self.kind = path, format_version, kind
        self.fields = fields
        """Content of the file except `format`, `kind` and `crc32c`; not checked."""

    def text(self, name: str) -> str:
        """Return a field that is text. Raises `SmallFileDamaged` for any other value."""
        return self._get_typed(name, str, "a text")

    def text_or_none(self, name: str, default: Any = _MISSING) -> str | None:
        """Return a text field; None if it is null, and the default if it is missing."""
        value = self.fields.get(name, default)
        return None if value is None else value if type(value) is str else self._get_typed(name, str, "a text or null")

    def number(self, name: str, at_least: int = 0) -> int:
        """Return an integer field, from `at_least` to 63 bits."""
        value = self._get_typed(name, int, "a whole number")
        if not at_least <= value <= NUMBER_MAX:
            raise self.field_error(name, f"a number from {at_least} to {NUMBER_MAX}")
        return value

    def flag(self, name: str, default: Any = _MISSING) -> bool:
        """Return a boolean field; the default if it is missing."""
        value = self.fields.get(name, default)
        return value if type(value) is bool else self._get_typed(name, bool, "true or false")

    def items(self, name: str, default: Any = _MISSING) -> list[Any]:
        """Return a list field; the default if it is missing."""
        value = self.fields.get(name, default)
        return value if type(value) is list else self._get_typed(name, list, "a list")

    def uuid(self, name: str) -> UUID:
        """Return a field that is a uuid. Raises `SmallFileDamaged` for any other value."""
        return self.parse_field(name, parse_uuid, "a uuid")

    def parse_field(self, name: str, parse: Callable[[Any], T], expected: str, default: Any = _MISSING) -> T:
        """Return the result of `parse` for a field.

        Errors of `parse`, `ValueError`, `TypeError`, `KeyError` or `FormatError`, mean that the field is damaged."""
        value = self.fields.get(name, default)
        if value is _MISSING:
            raise self.field_error(name, expected)
        try:
            return parse(value)
        except (ValueError, TypeError, KeyError, FormatError):
            raise self.field_error(name, expected) from None

    def _get_typed(self, name: str, kind: type[T], expected: str) -> T:
        """Return a field whose value has exactly the type `kind`."""
        value = self.fields.get(name)
        if type(value) is not kind:  # a bool is not accepted as a number
            raise self.field_error(name, expected)
        return value

    def field_error(self, name: str, expected: str) -> SmallFileDamaged:
        """Return the error for a field that is not `expected`."""
        found = f"is {_shorten(repr(self.fields[name]))}, not {expected}" if name in self.fields else "is missing"
        return SmallFileDamaged(f"{self.path} is damaged: its field {name!r} {found}")


def read_json_file(disk: Disk, path: str) -> JsonFile | None:
    """Read a file of any kind and version, and check its checksum; return None without a file.

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
        fields = _parse_object(content)
        stated = fields.pop("crc32c")
        if stated != compute_checksum(fields):
            raise ValueError("its checksum does not match")
        version, kind = fields.pop("format"), fields.pop("kind")
    except KeyError as error:
        raise SmallFileDamaged(f"{path} is damaged: its field {error} is missing") from None
    except (ValueError, RecursionError) as error:
        raise SmallFileDamaged(f"{path} is damaged: {error}") from None
    if type(version) is not int or type(kind) is not str:
        raise SmallFileDamaged(
            f"{path} is damaged: its format is {_shorten(repr(version))} of kind {_shorten(repr(kind))}"
        )
    return JsonFile(path, version, kind, fields)


def _parse_object(content: bytes) -> dict[str, Any]:
    """Parse the JSON object in a file. Raises `ValueError` with the file's content if it has no JSON object."""
    if not content:
        raise ValueError("it is empty")
    try:
        found = json.loads(content.decode())
    except UnicodeDecodeError as error:
        raise ValueError(f"its byte {error.start} is no UTF-8; it holds {_shorten(repr(content))}") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"it is no JSON ({error.msg} at {error.pos}); it holds {_shorten(repr(content))}") from None
    if type(found) is not dict:
        raise ValueError(f"it holds {_shorten(repr(found))}, and not a JSON object")
    return found


def encode_json(fields: Mapping[str, Any]) -> bytes:
    """Return the content of a file with these fields and their checksum."""
    return json.dumps({**fields, "crc32c": compute_checksum(fields)}).encode() + b"\n"


def stage_json(disk: Disk, path: str, fields: Mapping[str, Any]) -> File:
    """Write a file under a temporary name; after the caller synced and closed it, `place_json` renames it."""
    beside = path + _STAGED
    if disk.exists(beside):
        disk.unlink(beside)
    file = disk.open(beside, create=True)
    try:
        file.write(0, [encode_json(fields)])
    except BaseException:
        file.close()
        raise
    return file


def place_json(disk: Disk, path: str) -> None:
    """Rename the synced file to its final name; durable after a sync of its directory."""
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


def compute_checksum(fields: Mapping[str, Any]) -> int:
    """Return the CRC-32C of the fields as JSON with sorted keys."""
    return int(crc32c(json.dumps(fields, sort_keys=True).encode()))


def parse_uuid(value: Any) -> UUID:
    """Return the uuid of a text in the usual form; raises `ValueError`."""
    if type(value) is not str or str(UUID(value)) != value:
        raise ValueError(f"{value!r} is not a uuid")
    return intern_uuid(UUID(value).bytes)


def _shorten(text: str) -> str:
    """Return the beginning of a long text."""
    return text if len(text) <= _SHOWN_MAX else f"{text[: _SHOWN_MAX - 1]}…"
