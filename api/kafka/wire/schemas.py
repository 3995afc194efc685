"""Codec of messages of Kafka's protocol by the schemas of kafka-python (`kafka.protocol`).

Requests are decoded here, into the library's classes: its own decoder is made for answers of a trusted broker, and
accepts strings that end early, null for any field, negative counts and varints without end. Answers are encoded by the
library. Its import takes 0.1 s and memory, so that it is imported in a thread by the first request that needs it.

The library's classes accept versions from 0 on; the served ones are in the table of `dispatcher`."""

import importlib
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from struct import Struct
from typing import Any, Final, NamedTuple

from raftlog.api.kafka.api import ApiKey
from raftlog.api.kafka.wire.headers import is_flexible
from raftlog.api.kafka.wire.reader import RequestReader
from raftlog.types import Buffer

_MODULES: Final = tuple(f"kafka.protocol.{name}" for name in ("admin", "consumer", "metadata", "producer", "sasl"))
LARGE_ELEMENTS: Final = 200
"""Number of elements above which an answer counts as large: the encoding of one takes 5 to 20 µs."""
Read = Callable[[RequestReader], Any]


class _Classes(NamedTuple):
    """Message classes of the library, by API key."""

    requests: dict[int, Any]
    answers: dict[int, Any]


class _FieldReader(NamedTuple):
    """Function that reads the fields `names` of a message, which are adjacent; they need at least `bytes_min` bytes."""

    names: tuple[str, ...]
    read: Read
    bytes_min: int


_loading = threading.Lock()
_loaded: list[_Classes] = []


def is_loaded() -> bool:
    """Return whether the library was imported."""
    return bool(_loaded)


def load() -> None:
    """Import the library, if it is not imported yet; may be called in any thread."""
    with _loading:
        if not _loaded:
            _loaded.append(_import_library())


def request_class(key: ApiKey) -> Any:
    """Return the library's class of the requests of an API."""
    return _classes().requests[key]


def answer_class(key: ApiKey) -> Any:
    """Return the library's class of the answers of an API; its constructor takes `version=` and the fields."""
    return _classes().answers[key]


def decode(key: ApiKey, body: memoryview, version: int) -> Any:
    """Decode the body of a request; the result does not refer to the body. Raises `MalformedRequest`.

    Bytes after the last field are ignored, as Kafka does: librdkafka's Metadata v9 for all topics has one."""
    return _message_reader(key, version)(RequestReader(body))


def encode(answer: Any, version: int) -> Sequence[Buffer]:
    """Encode the body of an answer."""
    return (answer.encode(version=version),)


def is_large(answer: Any) -> bool:
    """Return whether an answer has many elements, counting its arrays and those in their elements."""
    count = 0
    for elements in _arrays(answer):
        count += len(elements)
        for element in elements:
            if count > LARGE_ELEMENTS:
                return True
            count += sum(map(len, _arrays(element)))
    return count > LARGE_ELEMENTS


def _arrays(message: Any) -> list[list[Any]]:
    """Return the arrays in a message of the library; none for other values."""
    found = [getattr(message, name, None) for name in getattr(type(message), "__slots__", ())]
    return [each for each in found if isinstance(each, list)]


def _classes() -> _Classes:
    """Return the message classes; load them at the first use."""
    if not _loaded:
        load()
    return _loaded[0]


def _import_library() -> _Classes:
    """Import the library's modules of messages; return their classes by API key."""
    classes = _Classes({}, {})
    for name in _MODULES:
        module = importlib.import_module(name)
        for found in vars(module).values():
            if _is_message(found) and found.__module__.startswith(name):
                by_key = classes.requests if found.is_request() else classes.answers
                by_key[found.API_KEY] = found
    return classes


def _is_message(found: Any) -> bool:
    """Return whether an attribute is a class of messages."""
    return isinstance(found, type) and hasattr(found, "API_KEY")


@lru_cache(maxsize=512)
def _message_reader(key: ApiKey, version: int) -> Read:
    """Return the reader of an API's requests of one version; it is built once."""
    request = request_class(key)
    return _struct_reader(request._struct, request, version, is_flexible(key, version)).read


def _struct_reader(struct: Any, data_class: Any, version: int, flexible: bool) -> _FieldReader:
    """Return a reader that creates an object of `data_class` from the fields of a schema."""
    parts = _field_readers(struct.untagged_fields(version), version, flexible)
    tags = {field.tag: _field_reader(field, version, flexible) for field in struct.tagged_fields(version)._fields}
    new = object.__new__

    def read(reader: RequestReader) -> Any:
        """Return the message that is read from here on, with its tagged fields if the version is flexible."""
        message = new(data_class)
        message._version, message.tags, message.unknown_tags = version, None, None
        for names, read_values, _ in parts:
            values = read_values(reader)
            if len(names) == 1:
                setattr(message, names[0], values)
            else:
                for name, value in zip(names, values, strict=True):
                    setattr(message, name, value)
        if flexible:
            _read_tags(reader, tags, message)
        return message

    return _FieldReader((), read, sum(part.bytes_min for part in parts) + flexible)


def _read_tags(reader: RequestReader, tags: dict[int, _FieldReader], message: Any) -> None:
    """Read the tagged fields that have a reader in `tags` into `message`; skip the others."""
    if not tags:
        reader.skip_tagged_fields()
        return
    count = reader.uvarint()
    reader.take_elements(count, 2)
    for _ in range(count):
        tag, size = reader.uvarint(), reader.uvarint()
        value, part = reader.view(size), tags.get(tag)
        if part is not None:
            inner = RequestReader(value)
            inner.elements_left = reader.elements_left
            setattr(message, part.names[0], part.read(inner))
            inner.finish()
            reader.elements_left = inner.elements_left


def _field_readers(fields: Sequence[Any], version: int, flexible: bool) -> list[_FieldReader]:
    """Return the readers of these fields; adjacent numbers get one reader."""
    parts: list[_FieldReader] = []
    run: list[Any] = []
    for field in (*fields, None):
        if field is not None and field.is_batchable():
            run.append(field)
            continue
        if run:
            parts.append(_number_reader(run))
            run = []
        if field is not None:
            parts.append(_field_reader(field, version, flexible))
    return parts


def _number_reader(fields: Sequence[Any]) -> _FieldReader:
    """Return a reader of adjacent numbers, which unpacks all of them in one step."""
    layout = Struct(">" + "".join(field._type.fmt for field in fields))
    names = tuple(field.name for field in fields)
    if len(names) == 1:
        return _FieldReader(names, lambda reader: reader.numbers(layout)[0], layout.size)
    return _FieldReader(names, lambda reader: reader.numbers(layout), layout.size)


def _field_reader(field: Any, version: int, flexible: bool, *, is_element: bool = False) -> _FieldReader:
    """Return the reader of one field; elements of arrays are never null."""
    names, is_nullable = (field.name,), not is_element and field.nullable_for_version_q(version)
    if field.is_array():
        return _array_reader(field, version, flexible, is_nullable)
    if field.is_struct():
        inner = _struct_reader(field, field.data_class, version, flexible)
        if not is_nullable:
            return _FieldReader(names, inner.read, inner.bytes_min)
        return _FieldReader(names, lambda reader: None if reader.view(1)[0] == 0xFF else inner.read(reader), 1)
    if field.is_batchable():
        return _number_reader((field,))
    kind = field._type_str
    length_bytes = 1 if flexible else 2 if kind == "string" else 4
    if kind == "string":
        return _FieldReader(
            names, lambda reader: reader.string(is_compact=flexible, is_nullable=is_nullable), length_bytes
        )
    if kind in ("bytes", "records"):
        return _FieldReader(
            names, lambda reader: reader.byte_string(is_compact=flexible, is_nullable=is_nullable), length_bytes
        )
    assert kind == "uuid", f"requests have no fields of type {kind}"
    return _FieldReader(names, RequestReader.uuid, 16)


def _array_reader(field: Any, version: int, flexible: bool, is_nullable: bool) -> _FieldReader:
    """Return the reader of an array."""
    element = field.array_of
    part = (
        _struct_reader(element, element.data_class, version, flexible)
        if element.is_struct()
        else _field_reader(element, version, flexible, is_element=True)
    )
    read_element, bytes_min = part.read, max(1, part.bytes_min)

    def read(reader: RequestReader) -> Any:
        """Return the elements of an array; None for a null array."""
        count = reader.count(is_compact=flexible, is_nullable=is_nullable, element_bytes_min=bytes_min)
        return None if count is None else [read_element(reader) for _ in range(count)]

    return _FieldReader((field.name,), read, 1 if flexible else 4)


def error_answer(key: ApiKey, version: int, code: int) -> Any:
    """Return an answer with only the top-level error code; None if this version has no such field."""
    answer = answer_class(key)
    field = answer._struct.fields.get("error_code")
    if field is None or not field.for_version_q(version):
        return None
    return answer(version=version, error_code=code)
