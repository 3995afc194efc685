"""Decoding of requests by Kafka's schemas: as kafka-python encodes them, and of invalid bytes."""

import asyncio
import random
import time
import tracemalloc
from contextlib import suppress
from typing import Any

import pytest

from raftlog.api.kafka.api import ApiKey
from raftlog.api.kafka.dispatcher import Dispatcher
from raftlog.api.kafka.wire import schemas
from raftlog.api.kafka.wire.errors import MalformedRequest
from raftlog.api.kafka.wire.headers import FLEXIBLE_FROM, NEVER
from raftlog.api.kafka.wire.reader import ELEMENTS_MAX, RequestReader
from raftlog.api.kafka.wire.schemas import LARGE_ELEMENTS
from raftlog.partitions.counters import KafkaCounters
from tests.kafka.messages import draw_request, encode


def versions_of(key: ApiKey) -> range:
    return range(schemas.request_class(key).max_version + 1)


@pytest.mark.parametrize("key", ApiKey)
def test_the_table_of_flexible_versions_matches_the_schemas(key: ApiKey) -> None:
    for found in (schemas.request_class(key), schemas.answer_class(key)):
        first = found._flexible_versions[0] if found._flexible_versions != (-1, -1) else NEVER
        assert first == FLEXIBLE_FROM[key], found


@pytest.mark.parametrize("key", ApiKey)
def test_every_field_of_every_version_is_decoded(key: ApiKey) -> None:
    rng = random.Random(int(key))
    for version in versions_of(key):
        for _ in range(5):
            message = draw_request(key, version, rng)
            data = bytearray(encode(message, version))
            found = schemas.decode(key, memoryview(data), version)
            data[:] = bytes(len(data))
            assert found == message, (key, version)


@pytest.mark.parametrize("key", ApiKey)
def test_truncated_requests_are_refused_and_bytes_after_a_request_are_ignored(key: ApiKey) -> None:
    rng = random.Random(int(key))
    for version in versions_of(key):
        message = draw_request(key, version, rng)
        data = encode(message, version)
        for size in range(len(data)):
            with pytest.raises(MalformedRequest):
                schemas.decode(key, memoryview(data)[:size], version)
        assert schemas.decode(key, memoryview(data + b"\0"), version) == message


def test_librdkafkas_request_for_all_topics_is_decoded() -> None:
    """Librdkafka 2.16 writes a null array of four bytes, where a compact one has one byte."""
    body = memoryview(bytes.fromhex("0000000001000000"))
    assert schemas.decode(ApiKey.METADATA, body, 9).topics is None


@pytest.mark.parametrize("key", ApiKey)
def test_changed_bytes_are_decoded_or_refused(key: ApiKey) -> None:
    rng = random.Random(int(key))
    for version in versions_of(key):
        data = encode(draw_request(key, version, rng), version)
        for _ in range(40):
            changed = bytearray(data)
            for _ in range(rng.randrange(1, 4)):
                if changed:
                    changed[rng.randrange(len(changed))] = rng.choice(
                        (0, 1, 0x7F, 0x80, 0xFE, 0xFF, rng.randrange(256))
                    )
            with suppress(MalformedRequest):  # any other error fails the test
                found = schemas.decode(key, memoryview(changed), version)
                assert isinstance(found, schemas.request_class(key))


MALFORMED: dict[str, tuple[ApiKey, int, bytes]] = {
    "array of -2": (ApiKey.METADATA, 4, b"\xff\xff\xff\xfe\0"),
    "array of 2^31 - 1": (ApiKey.METADATA, 4, b"\x7f\xff\xff\xff" + bytes(100)),
    "null array that must not be null": (ApiKey.METADATA, 0, b"\xff\xff\xff\xff"),
    "compact array of 2^32 - 2": (ApiKey.METADATA, 9, b"\xff\xff\xff\xff\x0f" + bytes(100)),
    "varint without end": (ApiKey.METADATA, 9, b"\xff" * 100_000),
    "varint above 32 bits": (ApiKey.METADATA, 9, b"\xff\xff\xff\xff\x1f" + bytes(100)),
    "null string": (ApiKey.METADATA, 4, b"\0\0\0\1\xff\xff\0"),
    "string of -2": (ApiKey.METADATA, 4, b"\0\0\0\1\xff\xfe\0"),
    "string of 40000": (ApiKey.METADATA, 9, b"\x02\xc1\xb8\x02" + bytes(40_000) + bytes(5)),
    "string that is not UTF-8": (ApiKey.METADATA, 4, b"\0\0\0\1\0\1\xff\0"),
    "bytes of -2": (ApiKey.SYNC_GROUP, 0, b"\0\1g\0\0\0\1\0\1m\0\0\0\1\0\1m\xff\xff\xff\xfe"),
    "null bytes": (ApiKey.SYNC_GROUP, 0, b"\0\1g\0\0\0\1\0\1m\0\0\0\1\0\1m\xff\xff\xff\xff"),
    "tags without content": (ApiKey.METADATA, 9, b"\x01\0\0\0\xff\xff\xff\xff\x0f"),
    "tag longer than the request": (ApiKey.METADATA, 9, b"\x01\0\0\0\x01\x00\x09a"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_wrong_lengths_are_refused_at_once(name: str) -> None:
    key, version, body = MALFORMED[name]
    tracemalloc.start()
    began = time.process_time()
    with pytest.raises(MalformedRequest):
        schemas.decode(key, memoryview(body), version)
    assert time.process_time() - began < 0.1
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


def test_unknown_tags_are_skipped() -> None:
    body = b"\x01\0\0\0" + b"\x02\x05\x03abc\x06\x00"
    assert schemas.decode(ApiKey.METADATA, memoryview(body), 9).topics == []


def test_the_number_of_elements_of_a_request_is_bounded() -> None:
    count = ELEMENTS_MAX + 1
    body = count.to_bytes(4, "big") + b"\0\0" * count + b"\0"
    with pytest.raises(MalformedRequest, match=f"more than {ELEMENTS_MAX} elements"):
        schemas.decode(ApiKey.METADATA, memoryview(body), 4)
    reader = RequestReader(memoryview(bytes(count)))
    reader.take_elements(ELEMENTS_MAX, 1)
    with pytest.raises(MalformedRequest, match="more than"):
        reader.take_elements(1, 1)


@pytest.mark.parametrize(("key", "version", "is_there"), [(ApiKey.HEARTBEAT, 0, True), (ApiKey.FETCH, 4, False)])
def test_failures_exist_where_the_answer_has_an_error_code(key: ApiKey, version: int, is_there: bool) -> None:
    answer: Any = schemas.error_answer(key, version, 7)
    assert (answer is not None) == is_there
    if is_there:
        found = schemas.answer_class(key).decode(b"".join(map(bytes, schemas.encode(answer, version))), version=version)
        assert found.error_code == 7


def test_answers_with_many_elements_count_as_large() -> None:
    answer = schemas.answer_class(ApiKey.METADATA)
    topic = answer.MetadataResponseTopic
    partition = topic.MetadataResponsePartition

    def metadata_answer(topics: int, partitions: int) -> Any:
        rows = [topic(name="t", partitions=[partition(partition_index=0)] * partitions)] * topics
        return answer(brokers=[], topics=rows)

    assert not schemas.is_large(metadata_answer(1, 1))
    assert not schemas.is_large(metadata_answer(20, 9))
    assert schemas.is_large(metadata_answer(20, 10))
    assert schemas.is_large(metadata_answer(1, LARGE_ELEMENTS))
    assert schemas.is_large(metadata_answer(LARGE_ELEMENTS + 1, 0))


async def test_requests_that_arrive_together_import_the_schemas_once(monkeypatch: pytest.MonkeyPatch) -> None:
    imports = []
    loaded = list(schemas._loaded)
    monkeypatch.setattr(schemas, "_loaded", [])
    monkeypatch.setattr(schemas, "load", lambda: (imports.append(True), schemas._loaded.extend(loaded)))
    dispatcher = Dispatcher([], KafkaCounters())
    await asyncio.gather(*(dispatcher.wait_for_schemas() for _ in range(3)))
    await dispatcher.wait_for_schemas()
    assert imports == [True]
