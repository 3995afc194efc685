"""Requests of every API with every field set, encoded by kafka-python."""

import random
from typing import Any
from uuid import UUID

from raftlog.api.kafka.api import ApiKey
from raftlog.api.kafka.wire import schemas

NUMBERS = {"int8": 100, "int16": 30_000, "uint16": 60_000, "int32": 1 << 30, "int64": 1 << 60}


def draw_request(key: ApiKey, version: int, rng: random.Random) -> Any:
    """Return a request whose fields have drawn values."""
    request = schemas.request_class(key)
    return _draw_struct(request._struct, request, version, rng)


def encode(message: Any, version: int) -> bytes:
    return bytes(message.encode(version=version))


def _draw_struct(struct: Any, data_class: Any, version: int, rng: random.Random) -> Any:
    fields = [*struct.untagged_fields(version), *struct.tagged_fields(version)._fields]
    return data_class(version=version, **{field.name: _draw_value(field, version, rng) for field in fields})


def _draw_value(field: Any, version: int, rng: random.Random, *, is_element: bool = False) -> Any:
    if not is_element and field.nullable_for_version_q(version) and rng.random() < 0.2:
        return None
    if field.is_array():
        element = field.array_of
        count = rng.randrange(1, 4)
        if element.is_struct():
            return [_draw_struct(element, element.data_class, version, rng) for _ in range(count)]
        return [_draw_value(element, version, rng, is_element=True) for _ in range(count)]
    if field.is_struct():
        return _draw_struct(field, field.data_class, version, rng)
    kind = field._type_str
    if kind in NUMBERS:
        return rng.randrange(NUMBERS[kind])
    if kind == "bool":
        return rng.random() < 0.5
    if kind == "float64":
        return rng.random()
    if kind == "uuid":
        return UUID(int=rng.randrange(1, 1 << 128))
    text = "".join(rng.choices("abc–ü🂡", k=rng.randrange(20)))
    return text if kind == "string" else text.encode()
