"""Compressed bodies: complete ones are decompressed, damaged ones refused; nothing after the damage is stored."""

import contextlib
import gzip
import random
import zlib

import pytest

from raftlog.api.http.server.content_encoding import PIECE_BYTES_MAX, ContentDecoder
from raftlog.api.http.server.problems import HttpProblem
from raftlog.records import build_batch
from tests.api.raw import build_request, exchange, fetch_answer, request_head

LARGE = b"".join(b'{"n": %d}\n' % number for number in range(30_000))
NOISE = random.Random(1).randbytes(300_000)


def compress_raw_deflate(data):
    stream = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return stream.compress(data) + stream.flush()


def compress_in_members(data):
    """Return several gzip members; some of them are empty."""
    return b"".join(
        gzip.compress(data[start : start + 1000]) + gzip.compress(b"") for start in range(0, len(data), 1000)
    )


COMPRESS = {"gzip": gzip.compress, "members": compress_in_members, "zlib": zlib.compress, "raw": compress_raw_deflate}
ENCODING = {"gzip": "gzip", "members": "gzip", "zlib": "deflate", "raw": "deflate"}


def decode_in_steps(encoding, body, step):
    """Return the decoded body, given to the decoder `step` bytes at a time; check the size of each piece."""
    decoder = ContentDecoder(encoding)
    found = b""
    for start in range(0, len(body), step):
        for piece in decoder.pieces(body[start : start + step]):
            assert 0 < len(piece) <= PIECE_BYTES_MAX
            found += piece
    decoder.check_complete()
    return found


@pytest.mark.parametrize("kind", COMPRESS)
@pytest.mark.parametrize(
    "data", [b"", b"x", LARGE, NOISE, bytes(3_000_000)], ids=["none", "one", "lines", "noise", "zeros"]
)
def test_complete_bodies_are_decompressed(kind, data):
    body = COMPRESS[kind](data)
    for step in (1, 7, 4096, 100_000) if len(body) < 100_000 else (4096, 100_000):
        assert decode_in_steps(ENCODING[kind], body, step) == data


@pytest.mark.parametrize("kind", ["gzip", "zlib", "raw"])
def test_every_truncation_is_detected(kind):
    body = COMPRESS[kind](LARGE[:500])
    for length in range(1, len(body)):
        with pytest.raises(HttpProblem, match="is truncated"):
            decode_in_steps(ENCODING[kind], body[:length], 64)


@pytest.mark.parametrize("kind", ["gzip", "zlib"])
def test_every_flipped_bit_behind_the_header_is_detected(kind):
    body = COMPRESS[kind](LARGE[:100])
    for place in range(10 if kind == "gzip" else 2, len(body)):
        for bit in range(8):
            bad = bytearray(body)
            bad[place] ^= 1 << bit
            with contextlib.suppress(HttpProblem):
                assert decode_in_steps(ENCODING[kind], bytes(bad), 64) == LARGE[:100]  # a bit that fills a byte up


@pytest.mark.parametrize("kind", COMPRESS)
def test_bytes_after_the_end_are_refused(kind):
    with pytest.raises(HttpProblem, match=r"is not|is truncated"):
        decode_in_steps(ENCODING[kind], COMPRESS[kind](b"x") + b"tail", 3)


def list_logged_tracebacks(caplog):
    return [record.getMessage() for record in caplog.records if record.exc_info]


async def fetch_end_offset(api):
    return (await api.get("/topics/t/partitions/0/offsets"))[1]["end_offset"]


BATCH = bytes(build_batch([b"x" * 5000], now_ms=1))
BODIES = {
    "application/json": b'{"records": [{"value": 12345678}]}',
    "application/octet-stream": NOISE,
    "application/vnd.raftlog.batches": BATCH,
    "application/x-ndjson": b"12345678\n87654321",
}


@pytest.mark.parametrize("kind", COMPRESS)
@pytest.mark.parametrize("content_type", BODIES)
async def test_a_truncated_body_stores_nothing_after_the_cut(api, caplog, content_type, kind):
    await api.create_topic()
    body = COMPRESS[kind](BODIES[content_type])
    path = "/topics/t/partitions/0?lines=values"
    headers = (f"Content-Type: {content_type}", f"Content-Encoding: {ENCODING[kind]}")
    for length in (1, len(body) // 3 + 1, len(body) - 9, len(body) - 1):
        answer = await fetch_answer(api.address, build_request(path, body[:length], *headers))
        assert (answer.status, answer.body["error_code"]) == (400, 40002), length
        assert f"the {ENCODING[kind]} body is truncated" in answer.body["message"]
        chunks = b"%x\r\n%b\r\n0\r\n\r\n" % (length, body[:length])
        chunked = request_head(
            "POST", path, "Host: 127.0.0.1", *headers, "Transfer-Encoding: chunked", "Connection: close"
        )
        assert (await fetch_answer(api.address, chunked + chunks)).status == 400
        _, records = await api.get("/topics/t/partitions/0/records?offset=0&max_bytes=1")
        assert [record["value"] for record in records] in ([], [12345678])  # the line before the cut
        if content_type != "application/x-ndjson":
            assert await fetch_end_offset(api) == 0
    before = await fetch_end_offset(api)
    assert (await fetch_answer(api.address, build_request(path, body, *headers))).status == 200
    assert await fetch_end_offset(api) == before + (2 if content_type == "application/x-ndjson" else 1)
    assert list_logged_tracebacks(caplog) == []


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
@pytest.mark.parametrize("body", [b"no such thing", b"\x1f\x8b\x08\x00", NOISE], ids=["text", "header", "noise"])
@pytest.mark.parametrize("content_type", BODIES)
async def test_an_undecodable_batch_is_a_named_error_without_a_traceback(api, caplog, content_type, encoding, body):
    await api.create_topic()
    headers = (f"Content-Type: {content_type}", f"Content-Encoding: {encoding}")
    answer = await fetch_answer(api.address, build_request("/topics/t/partitions/0", body, *headers))
    assert (answer.status, answer.body["error_code"]) == (400, 40002)
    assert encoding in answer.body["message"]
    assert await fetch_end_offset(api) == 0
    assert list_logged_tracebacks(caplog) == []


@pytest.mark.parametrize("encoding", ["br", "zstd", "lzma", "gzip, gzip", "compress"])
@pytest.mark.parametrize("content_type", BODIES)
async def test_unsupported_encodings_are_refused(api, content_type, encoding):
    await api.create_topic()
    headers = (f"Content-Type: {content_type}", f"Content-Encoding: {encoding}")
    request = build_request("/topics/t/partitions/0", BODIES[content_type], *headers)
    answer = await fetch_answer(api.address, request)
    assert (answer.status, answer.body["error_code"]) == (415, 415)
    assert "gzip or deflate" in answer.body["message"]


@pytest.mark.parametrize("encoding", ["identity", "", "X-GZIP"])
async def test_aliases_of_encodings_are_accepted(api, encoding):
    await api.create_topic()
    body = BODIES["application/json"]
    headers = ("Content-Type: application/json", f"Content-Encoding: {encoding}")
    request = build_request("/topics/t", gzip.compress(body) if encoding == "X-GZIP" else body, *headers)
    assert (await fetch_answer(api.address, request)).status == 200


@pytest.mark.parametrize("path", ["/v3/clusters/-/topics", "/groups/g/offsets", "/consumers/g", "/v1/cluster_config"])
async def test_every_json_body_may_be_compressed(api, path):
    method = "PUT" if path.startswith("/v1") else "POST"
    headers = ("Content-Type: application/json", "Content-Encoding: gzip")
    whole = gzip.compress(b"{}")
    answer = await fetch_answer(api.address, build_request(path, whole, *headers, method=method))
    assert "gzip" not in str(answer.body)
    answer = await fetch_answer(api.address, build_request(path, whole[:-1], *headers, method=method))
    assert (answer.status, answer.body["error_code"]) == (400, 40002)


async def test_a_body_that_decompresses_to_too_much_is_refused(start_api):
    api = await start_api(body_bytes_max=100_000)
    await api.create_topic()
    bomb = gzip.compress(b'{"records": [{"value": "' + bytes(50_000_000))
    headers = ("Content-Type: application/json", "Content-Encoding: gzip")
    answer = await fetch_answer(api.address, build_request("/topics/t", bomb, *headers))
    assert (answer.status, answer.body["error_code"]) == (413, 413)


@pytest.mark.parametrize("content_type", BODIES)
async def test_invalid_chunks_are_refused_without_a_traceback(api, caplog, content_type):
    await api.create_topic()
    lines = ("Host: 127.0.0.1", f"Content-Type: {content_type}", "Transfer-Encoding: chunked")
    body = BODIES[content_type]
    request = request_head("POST", "/topics/t/partitions/0?lines=values", *lines) + b"%x\r\n%b\r\nzzz\r\n" % (
        len(body),
        body,
    )
    assert b" 400 " in (await exchange(api.address, request)).split(b"\r\n")[0]
    assert list_logged_tracebacks(caplog) == []
