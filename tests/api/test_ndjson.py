"""NDJSON bodies: appended line by line as they arrive, kept up to an error, slowed down when the disk is slow."""

import asyncio
import gzip
import io
from pathlib import Path

import orjson
import pytest

from raftlog.api.http.records import ndjson_ingest
from raftlog.api.http.records.line_splitter import LineSplitter
from raftlog.api.http.records.ndjson_ingest import NdjsonIngest
from raftlog.api.http.records.ndjson_report import StreamReport
from raftlog.errors import DeadlineExceeded, NoLeader
from raftlog.partitions.produce.streams import ProduceStream
from raftlog.topic_config import MIB
from tests.loop_hold import HOLD_S_MAX, LoopHold
from tests.waiting import until, until_async

NDJSON = {"Content-Type": "application/x-ndjson"}


async def send(api, body, path="/topics/t", **headers):
    """Return status and JSON of the response to a body: bytes, or an asynchronous generator of its pieces."""
    body = io.BytesIO(body) if isinstance(body, bytes) else body
    return await api.post(
        path, data=body, headers=NDJSON | {name.replace("_", "-"): at for name, at in headers.items()}
    )


async def fetch_values(api, partition=0, offset=0, topic="t"):
    path = f"/topics/{topic}/partitions/{partition}/records?offset={offset}&max_bytes=8000000&timeout=0"
    found = (await api.get(path))[1]
    return [(record["key"], record["value"]) for record in found]


async def fetch_end_offset(api, partition=0):
    return (await api.get(f"/topics/t/partitions/{partition}/offsets"))[1]["end_offset"]


def number_lines(count, begin=0):
    return b"".join(b'{"value":%d}\n' % number for number in range(begin, begin + count))


async def test_each_line_is_a_record(api):
    await api.create_topic()
    body = b'{"value": {"a": [1, 2.5]}}\n\n  {"key": "k", "value": "text", "timestamp": 5}\r\n{"value": null, "key": 1}'
    status, said = await send(api, body)
    assert status == 200
    assert said == {
        "records": 3,
        "partitions": [{"partition": 0, "records": 3, "first_offset": 0, "last_offset": 2}],
    }
    assert await fetch_values(api) == [(None, {"a": [1, 2.5]}), ("k", "text"), (1, None)]


async def test_values_are_stored_byte_for_byte(api):
    await api.create_topic()
    body = b'{"n":  12345678901234567890123}\n"x"\n null \n[ ]\n'
    assert (await send(api, body, "/topics/t?lines=values"))[1]["records"] == 4
    async with api.session.get(api.url + "/topics/t/partitions/0/records?offset=0") as response:
        text = await response.read()
    assert b'"value":{"n":  12345678901234567890123},' in text
    assert b'"value":[ ],' in text
    assert [value for _, value in await fetch_values(api)][1:3] == ["x", None]


async def test_the_output_of_a_fetch_can_be_produced_again(api):
    await api.create_topic()
    line = b'{"topic":"other","partition":0,"offset":77,"key":"a","value":"/w==","encoding":%b}'
    assert (await send(api, line % b'{"value":"base64","key":"text"}'))[1]["records"] == 1
    (found,) = (await api.get("/topics/t/partitions/0/records?offset=0"))[1]
    assert (found["key"], found["value"]) == ("a", "/w==")
    assert found["encoding"] == {"key": "text", "value": "base64"}


async def test_text_records_of_the_command_line_are_accepted(api):
    await api.create_topic()
    assert (await send(api, b'{"key":"k","value":"v"}\n{"value":"w"}', "/topics/t?lines=text-records"))[1][
        "records"
    ] == 2
    found = (await api.get("/topics/t/partitions/0/records?offset=0"))[1]
    assert found[0]["encoding"] == {"key": "text", "value": "text"}
    assert found[1]["value"] == "w"


async def test_keys_choose_the_partition_and_lines_may_name_one(api):
    await api.create_topic(partitions=3)
    body = b"".join(b'{"key":"k%d","value":%d}\n' % (number % 5, number) for number in range(50))
    body += b'{"value":"named","partition":2}\n'
    status, said = await send(api, body)
    assert (status, said["records"]) == (200, 51)
    found = [await fetch_values(api, partition) for partition in range(3)]
    assert found[2][-1] == (None, "named")
    for part, records in enumerate(found):
        shown = next((each for each in said["partitions"] if each["partition"] == part), None)
        assert (shown["records"] if shown else 0) == len(records)
        values = [value for key, value in records if key is not None]
        assert values == sorted(values)
    wheres = {key: part for part, records in enumerate(found) for key, _ in records if key}
    assert all(wheres[key] == part for part, records in enumerate(found) for key, _ in records if key)


async def test_records_are_appended_while_the_body_arrives(api):
    await api.create_topic()
    go_on = asyncio.Event()

    async def body():
        yield b'{"value":1}\n{"val'
        await go_on.wait()
        yield b'ue":2}\n'

    sending = asyncio.create_task(send(api, body()))
    _, found = await api.get("/topics/t/partitions/0/records?offset=0&timeout=10000")
    assert [record["value"] for record in found] == [1]
    assert not sending.done()
    go_on.set()
    assert (await sending)[1]["records"] == 2


@pytest.mark.parametrize("good", [0, 3])
async def test_a_bad_line_ends_the_body_and_earlier_records_stay(api, good):
    for number, (bad, status, code, why) in enumerate(
        [
            (b"{nonsense}", 422, 42203, "not JSON"),
            (b"[1]", 422, 42203, "not a record"),
            (b'{"valu":1}', 422, 42203, "unknown field 'valu'"),
            (b'{"value":1,"partition":"0"}', 422, 42203, "partition"),
            (b'{"value":"' + b"x" * 5000 + b'"}', 413, 413, "max.message.bytes"),
        ]
    ):
        topic = f"t{number}"
        await api.create_topic(topic, max_message_bytes="4096")
        found, said = await send(
            api, b"\n" + number_lines(good) + bad + b"\n" + number_lines(5, 100), f"/topics/{topic}"
        )
        assert (found, said["error_code"], said["line"]) == (status, code, good + 2)
        assert why in said["message"]
        assert f"line {good + 2}:" in said["message"]
        assert said["outcome"] == ("partial" if good else "failed")
        assert said["records"] == good == len(await fetch_values(api, topic=topic))


async def test_a_line_without_end_is_refused_before_it_ends(api):
    await api.create_topic(max_message_bytes="65536")
    sent = 0

    async def body():
        nonlocal sent
        yield number_lines(2)
        while True:
            sent += 1
            yield b"x" * 65536

    status, said = await send(api, body())
    assert (status, said["line"], said["records"], said["outcome"]) == (413, 3, 2, "partial")


async def test_gzip_is_accepted_and_unknown_encodings_are_refused(api):
    await api.create_topic()
    status, said = await send(api, gzip.compress(number_lines(1000)), Content_Encoding="gzip")
    assert (status, said["records"]) == (200, 1000)
    status, said = await send(api, number_lines(3), Content_Encoding="lzma")
    assert (status, said["error_code"], said["outcome"]) == (415, 415, "failed")
    status, said = await send(api, number_lines(3), Content_Encoding="br")
    assert (status, said["error_code"], said["outcome"]) == (415, 415, "failed")
    assert await fetch_end_offset(api) == 1000


async def test_a_gzip_bomb_ends_the_body_after_its_records(api):
    await api.create_topic(max_message_bytes="65536")
    body = gzip.compress(number_lines(2) + b"x" * 50_000_000)
    assert len(body) < 100_000
    status, said = await send(api, body, Content_Encoding="gzip")
    assert (status, said["records"], said["line"]) == (413, 2, 3)


async def test_invalid_requests_are_refused_before_the_body_arrives(api):
    await api.create_topic()
    await api.post("/groups/g/offsets", {"offsets": [{"topic": "t", "partition": 0, "offset": 0}]})
    for path, status, code in [
        ("/topics/none", 404, 40401),
        ("/topics/t/partitions/9", 404, 40402),
        ("/topics/t?lines=some", 400, 40002),
        ("/topics/t?acks=7", 400, 40002),
        ("/topics/__consumer_offsets", 400, 40002),
    ]:
        found, said = await send(api, number_lines(1), path)
        assert (found, said["error_code"], said["outcome"]) == (status, code, "failed")


async def test_an_empty_body_is_accepted(api):
    await api.create_topic()
    for body in (b"", b"\n\n \n"):
        assert await send(api, body) == (200, {"records": 0, "partitions": []})


async def test_a_silent_body_times_out(start_api):
    api = await start_api(body_timeout_ms=100)
    await api.create_topic()
    never = asyncio.Event()

    async def body():
        yield number_lines(2)
        await never.wait()

    status, said = await send(api, body())
    assert (status, said["error_code"], said["records"], said["line"]) == (408, 40801, 2, 3)
    assert said["outcome"] == "partial"


async def test_a_slow_body_does_not_time_out(start_api):
    api = await start_api(body_timeout_ms=1_500)
    await api.create_topic()

    async def body():  # longer than the bound in all, and far from it between two lines
        for number in range(12):
            yield number_lines(1, number)
            await asyncio.sleep(0.15)

    assert (await send(api, body()))[1]["records"] == 12


async def test_records_of_a_client_that_disconnects_stay(api):
    await api.create_topic()
    _, writer = await asyncio.open_connection(*api.address)
    head = "POST /topics/t HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"
    head += "Transfer-Encoding: chunked\r\n\r\n"
    piece = number_lines(7) + b'{"value'
    writer.write(head.encode() + b"%x\r\n%b\r\n" % (len(piece), piece))
    await writer.drain()
    await api.get("/topics/t/partitions/0/records?offset=6&timeout=10000")
    writer.transport.abort()
    assert (await send(api, number_lines(1, 7)))[1]["partitions"][0]["first_offset"] == 7


class Slow:
    """Produce streams whose appends wait for the test, or fail."""

    def __init__(self, monkeypatch):
        self.waiting: list[asyncio.Future[None]] = []
        self.sizes: list[int] = []
        inner = ProduceStream.append

        async def append(stream, records, *rest):
            turn = asyncio.get_running_loop().create_future()
            self.waiting.append(turn)
            self.sizes.append(len(records))
            await turn
            return await inner(stream, records, *rest)

        monkeypatch.setattr(ProduceStream, "append", append)


@pytest.fixture
def slow(api, monkeypatch):
    """Delay appends; cancel those that still wait when the test ends, since the server could not stop otherwise."""
    slow = Slow(monkeypatch)
    yield slow
    for turn in slow.waiting:
        turn.cancel()


def max_socket_bytes() -> int:
    """Return the maximum of bytes that the kernel buffers between the two ends of a connection."""
    kept = (Path("/proc/sys/net/ipv4") / name for name in ("tcp_rmem", "tcp_wmem"))
    return sum(int(each.read_text().split()[2]) for each in kept)


async def test_a_slow_disk_slows_the_sender(api, slow, monkeypatch):
    """The server receives at most one block being appended, one being filled, and the data that aiohttp reads ahead."""
    await api.create_topic()
    line = b'{"value":"' + b"x" * 1000 + b'"}\n'
    bound = 4 * 1024 * 1024 + max_socket_bytes()
    sent = blocks = 0
    has_ended = False
    send_block = NdjsonIngest._send_block

    async def count_block(ingest):
        nonlocal blocks
        blocks += 1
        await send_block(ingest)

    monkeypatch.setattr(NdjsonIngest, "_send_block", count_block)

    async def body():
        nonlocal sent
        while sent < 2 * bound and not has_ended:
            sent += 100 * len(line)
            yield line * 100

    sending = asyncio.create_task(send(api, body()))
    await until(lambda: blocks == 2)  # the second one is full, and waits for the first
    (connection,) = api.server._connections._open.values()
    await until(lambda: not connection.is_reading() or sent >= bound)
    assert len(slow.waiting) == 1
    assert sent < bound
    has_ended = True
    for turn in slow.waiting:
        turn.set_result(None)
    while not sending.done():
        await until(lambda: sending.done() or not slow.waiting[-1].done())
        if not slow.waiting[-1].done():
            slow.waiting[-1].set_result(None)
    assert (await sending)[1]["records"] == sent // len(line) == sum(slow.sizes)
    assert await fetch_end_offset(api) == sent // len(line)
    assert max(slow.sizes) * len(line) < 3 * 1024 * 1024


@pytest.mark.parametrize(
    ("error", "status", "outcome"),
    [(DeadlineExceeded("late"), 504, "unknown"), (NoLeader("nobody leads"), 503, "partial")],
)
async def test_a_failed_append_ends_the_body(api, slow, error, status, outcome):
    await api.create_topic()
    more = asyncio.Event()

    async def body():
        yield number_lines(3)
        await more.wait()
        yield number_lines(4, 3)
        await until(lambda: len(slow.waiting) == 2)
        yield number_lines(5, 7)

    sending = asyncio.create_task(send(api, body()))
    await until(lambda: slow.waiting)
    slow.waiting[0].set_result(None)
    more.set()
    await until(lambda: len(slow.waiting) == 2)
    slow.waiting[1].set_exception(error)
    found, said = await sending
    assert (found, said["line"], said["records"], said["outcome"]) == (status, 4, 3, outcome)
    assert len(slow.waiting) == 2
    assert await fetch_end_offset(api) == 3


async def test_an_error_for_a_missing_partition_names_the_line(api):
    await api.create_topic(partitions=2)
    body = b'{"value":1,"partition":0}\n{"value":2,"partition":7}\n{"value":3,"partition":1}\n'
    status, said = await send(api, body)
    assert (status, said["error_code"], said["line"], said["records"], said["outcome"]) == (404, 40402, 2, 2, "partial")
    failed = next(each for each in said["partitions"] if each["partition"] == 7)
    assert (failed["records"], failed["line"], failed["outcome"], failed["error_code"]) == (0, 2, "failed", 40402)


async def test_stopping_the_server_ends_a_body_with_an_answer(start_api):
    api = await start_api()
    await api.create_topic()
    never = asyncio.Event()

    async def body():
        yield number_lines(2)
        await never.wait()

    sending = asyncio.create_task(send(api, body()))
    await api.get("/topics/t/partitions/0/records?offset=1&timeout=10000")
    await api.server.stop(2.0)
    status, said = await sending
    assert (status, said["error_code"], said["records"], said["outcome"]) == (503, 50302, 2, "partial")


async def test_memory_is_released_after_each_body(start_api):
    api = await start_api({"memory_budget_bytes": 1 << 20}, body_bytes_max=1 << 20)
    await api.create_topic()
    big = b'{"value":"' + b"x" * 100_000 + b'"}\n'
    results = await asyncio.gather(*(send(api, big * 30) for _ in range(8)), send(api, b"{bad"))
    assert [status for status, _ in results] == [200] * 8 + [422]
    assert api.server.bodies.memory.used == 0


async def test_progress_is_reported_line_by_line(api):
    """Progress lines arrive before the body ends and cover only stored records; an error is the last line."""
    await api.create_topic()
    go_on = asyncio.Event()

    async def body():
        yield number_lines(2)
        await go_on.wait()
        yield number_lines(3, 2) + b"{bad"

    headers = NDJSON | {"Accept": "application/x-ndjson"}
    async with api.session.post(api.url + "/topics/t", data=body(), headers=headers) as response:
        assert (response.status, response.headers["Content-Type"]) == (200, "application/x-ndjson")
        first = orjson.loads(await response.content.readline())
        assert (first["records"], first["partitions"][0]["last_offset"]) == (2, 1)
        assert await fetch_end_offset(api) == 2
        go_on.set()
        *_, last = [orjson.loads(line) async for line in response.content]
        assert (last["records"], last["line"], last["outcome"], last["error_code"]) == (5, 6, "partial", 42203)
    status, said = await api.post("/topics/t", data=io.BytesIO(b"{bad"), headers=headers)
    assert (status, said["outcome"]) == (422, "failed")


async def test_a_sender_that_reads_no_progress_is_not_blocked(api, monkeypatch):
    """The progress lines are padded, so that they exceed every socket buffer."""
    inner = StreamReport.as_json
    monkeypatch.setattr(StreamReport, "as_json", lambda report: inner(report) | {"padding": "x" * 100_000})
    monkeypatch.setattr(ndjson_ingest, "BLOCK_BYTES_MAX", 200)
    await api.create_topic()
    reader, writer = await asyncio.open_connection(*api.address)
    head = b"POST /topics/t HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"
    writer.write(head + b"Accept: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n")
    piece = (b'{"value":"' + b"x" * 1000 + b'"}\n') * 100
    async with asyncio.timeout(20):
        for _ in range(120):
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            await writer.drain()
        writer.write(b"0\r\n\r\n")

        async def are_stored():
            return await fetch_end_offset(api) == 12_000

        await until_async(are_stored)
        while not (text := await reader.read(1 << 20)).endswith(b"\r\n0\r\n\r\n"):
            assert text
    writer.close()


async def test_acks_0_returns_no_offsets(api):
    await api.create_topic()
    status, said = await send(api, number_lines(3), "/topics/t?acks=0")
    assert (status, said["records"]) == (200, 3)
    assert said["partitions"] == [{"partition": 0, "records": 3, "first_offset": None, "last_offset": None}]


def test_lines_do_not_depend_on_the_pieces_of_the_body():
    body = b'{"a":1}\r\n\n  {"b":2}\n{"c":3}'
    for cut in range(1, len(body)):
        splitter = LineSplitter(100)
        found = []
        for begin in range(0, len(body), cut):
            found += splitter.feed(body[begin : begin + cut])
        assert found + splitter.take_last_line() == [b'{"a":1}', b"", b'{"b":2}', b'{"c":3}'], cut


LARGE_BYTES = 8 * MIB
GROWING = b"[" + b"[]," * (LARGE_BYTES // 3) + b"0]"


@pytest.mark.parametrize(("kind", "line"), [("records", b'{"value":%b,"partition":1}'), ("values", b"%b")])
async def test_a_large_line_does_not_block_the_loop(api, kind, line):
    await api.create_topic(partitions=2, max_message_bytes=str(2 * LARGE_BYTES))
    path = f"/topics/t?lines={kind}" if kind == "records" else f"/topics/t/partitions/1?lines={kind}"
    async with LoopHold() as hold:
        status, answer = await send(api, b"\n" + line % GROWING + b"\n", path)
    assert (status, answer["records"]) == (200, 1), answer
    assert hold.longest_s < HOLD_S_MAX
    async with api.session.get(api.url + "/topics/t/partitions/1/records?offset=0") as response:
        assert (await response.read()).count(b"[]") == GROWING.count(b"[]") + 1, "and its headers"


LARGE = b'"' + b"x" * 300_000 + b'"'
BAD_LARGE_LINES = [
    ("records", b'{"value":%b' % LARGE, "not a JSON object"),
    ("records", b"[%b]" % LARGE, "not a JSON object"),
    ("records", b'{"value":%b,"n":}' % LARGE, "not JSON"),
    ("records", b'{"value":%b,"valu":1}' % LARGE, "unknown field 'valu'"),
    ("text-records", b'{"key":[%b}' % LARGE, "unexpected end"),
    ("values", b"[%b" % LARGE, "not JSON"),
]


@pytest.mark.parametrize(("kind", "bad", "why"), BAD_LARGE_LINES)
async def test_a_bad_large_line_ends_the_body(api, kind, bad, why):
    await api.create_topic()
    status, answer = await send(api, b'{"value":1}\n' + bad + b'\n{"value":2}\n', f"/topics/t?lines={kind}")
    assert (status, answer["error_code"], answer["outcome"]) == (422, 42203, "partial"), answer
    assert (answer["records"], answer["line"]) == (1, 2)
    assert why in answer["message"]
    assert "at character" not in answer["message"]


async def test_large_lines_are_parsed_like_small_ones(api):
    await api.create_topic(partitions=2)
    body = b'{"key":"k","value":%b,"encoding":{"value":"text"},"partition":1}\n' % LARGE
    assert (await send(api, body + body.replace(b"x" * 300_000, b"x"), "/topics/t?lines=text-records"))[0] == 200
    found = (await api.get("/topics/t/partitions/1/records?offset=0"))[1]
    assert [(row["key"], len(row["value"]), row["encoding"]) for row in found] == [
        ("k", size, {"key": "text", "value": "text"}) for size in (300_000, 1)
    ]
