"""ApiVersions and the headers, byte by byte and by kafka-python's classes; and refused versions."""

import pytest

from raftlog.api.kafka.api import ApiKey
from raftlog.api.kafka.wire import headers, schemas
from raftlog.api.kafka.wire.errors import MalformedRequest
from tests.kafka.harness import Edge, feed, make_frame, make_request, parse_answers, settle

LISTED = [(0, 0, 9), (1, 4, 12), (2, 1, 6), (3, 0, 9), (12, 0, 4), (14, 0, 5), (18, 0, 3)]
ROWS = b"".join(b"".join(number.to_bytes(2, "big") for number in row) for row in LISTED)
TAGGED_ROWS = b"".join(b"".join(number.to_bytes(2, "big") for number in row) + b"\0" for row in LISTED)
SOFTWARE = b"\x06kcat0\x061.7.0\0"
ANSWERS = {
    0: b"\0\0" + b"\0\0\0\7" + ROWS,
    1: b"\0\0" + b"\0\0\0\7" + ROWS + b"\0\0\0\0",
    2: b"\0\0" + b"\0\0\0\7" + ROWS + b"\0\0\0\0",
    3: b"\0\0" + b"\x08" + TAGGED_ROWS + b"\0\0\0\0" + b"\0",
    4: b"\0\x23" + b"\0\0\0\1" + b"\0\x12\0\0\0\3",
    99: b"\0\x23" + b"\0\0\0\1" + b"\0\x12\0\0\0\3",
    -1: b"\0\x23" + b"\0\0\0\1" + b"\0\x12\0\0\0\3",
}


@pytest.mark.parametrize("version", ANSWERS)
async def test_answers_are_encoded_as_documented(edge: Edge, version: int) -> None:
    connection, transport = edge.connect()
    body = SOFTWARE if version >= 3 else b""
    feed(connection, make_request(ApiKey.API_VERSIONS, version, body, correlation_id=7))
    assert parse_answers(transport.written) == [(7, ANSWERS[version])]
    assert not transport.is_closed


@pytest.mark.parametrize("version", range(5))
async def test_kafka_python_decodes_the_answers(edge: Edge, version: int) -> None:
    connection, transport = edge.connect()
    message = schemas.request_class(ApiKey.API_VERSIONS)(
        version=version, client_software_name="kafka-python", client_software_version="3.0.12"
    )
    message.with_header(correlation_id=3, client_id="client")
    feed(connection, bytes(message.encode(header=True, framed=True)))
    found = schemas.answer_class(ApiKey.API_VERSIONS).decode(transport.written, version, header=True, framed=True)
    assert found.header.correlation_id == 3
    assert found.error_code == (0 if version <= 3 else 35)
    listed = [(row.api_key, row.min_version, row.max_version) for row in found.api_keys]
    assert listed == (LISTED if version <= 3 else [(18, 0, 3)])


@pytest.mark.parametrize("software", [b"\x01\x021\0", b"\x02a\x01\0", b"\x03a \x021\0", b"\x03-a\x021\0"])
async def test_invalid_names_of_client_software_are_refused(edge: Edge, software: bytes) -> None:
    connection, transport = edge.connect()
    feed(connection, make_request(ApiKey.API_VERSIONS, 3, software))
    assert parse_answers(transport.written) == [(0, b"\0\x2a" + b"\x01" + b"\0\0\0\0" + b"\0")]
    assert not transport.is_closed


@pytest.mark.parametrize("acks", [0, 1, -1])
@pytest.mark.parametrize("version", range(3))
async def test_old_versions_of_produce_are_listed_and_refused(edge: Edge, version: int, acks: int) -> None:
    connection, transport = edge.connect()
    produce = schemas.request_class(ApiKey.PRODUCE)
    topic, partition = produce.TopicProduceData, produce.TopicProduceData.PartitionProduceData
    message = produce(
        version=version,
        acks=acks,
        timeout_ms=1,
        topic_data=[
            topic(
                version=version,
                name="orders",
                partition_data=[partition(version=version, index=index, records=b"old") for index in (0, 3)],
            )
        ],
    )
    feed(connection, make_request(0, version, bytes(message.encode())))
    await settle()
    assert edge.seen == []
    if acks == 0:
        assert transport.written == b""
        return
    found = schemas.answer_class(ApiKey.PRODUCE).decode(parse_answers(transport.written)[0][1], version=version)
    partitions = [(row.index, row.error_code, row.base_offset) for row in found.responses[0].partition_responses]
    assert (found.responses[0].name, partitions) == ("orders", [(0, 35, -1), (3, 35, -1)])
    assert not transport.is_closed


@pytest.mark.parametrize(
    ("key", "version", "is_request_tagged", "is_answer_tagged"),
    [(ApiKey.HEARTBEAT, 3, False, False), (ApiKey.HEARTBEAT, 4, True, True), (ApiKey.API_VERSIONS, 3, True, False)],
)
async def test_flexible_versions_have_tagged_headers(
    edge: Edge, key: ApiKey, version: int, is_request_tagged: bool, is_answer_tagged: bool
) -> None:
    edge.is_immediate = False
    connection, transport = edge.connect()
    message = schemas.request_class(key)(
        version=version,
        **(
            {"group_id": "g", "generation_id": 1, "member_id": "m"}
            if key is ApiKey.HEARTBEAT
            else {"client_software_name": "a", "client_software_version": "1"}
        ),
    )
    frame = make_request(key, version, bytes(message.encode()))
    tags = b"\x02\x00\x01x\x63\x00"
    body = frame[4 + 8 + 2 + len(b"tester") :]
    if is_request_tagged:
        frame = make_frame(frame[4 : len(frame) - len(body)] + tags + body[1:])
    feed(connection, frame)
    if key is ApiKey.HEARTBEAT:
        await settle()
        edge.waiting[0].set_result(schemas.answer_class(key)(version=version, error_code=27))
        await settle()
        body = parse_answers(transport.written)[0][1]
        assert (body[:1] == b"\0" and len(body) == 8) == is_answer_tagged
    else:
        assert parse_answers(transport.written) == [(0, ANSWERS[3])]


@pytest.mark.parametrize("size", range(10))
def test_short_headers_are_refused(size: int) -> None:
    with pytest.raises(MalformedRequest):
        headers.read_head(memoryview(bytes(size)))


def test_an_answer_begins_with_its_length() -> None:
    assert headers.answer_head(-1, 3, is_tagged=False) == b"\0\0\0\7\xff\xff\xff\xff"
    assert headers.answer_head(1, 3, is_tagged=True) == b"\0\0\0\x08\0\0\0\1\0"
