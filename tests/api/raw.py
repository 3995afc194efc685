"""Requests as raw bytes on a socket, for requests that no HTTP client sends."""

import asyncio
from typing import Any, NamedTuple

import orjson

ANSWER_SECONDS_MAX = 10.0
_READ_BYTES = 65_536


class RawAnswer(NamedTuple):
    """Status, headers with lowercase names, and the body: parsed if it is JSON, else bytes."""

    status: int
    headers: dict[str, str]
    body: Any


def request_head(method: str, target: str | bytes, *headers: str | bytes, version: str = "HTTP/1.1") -> bytes:
    """Return a request line and the given header lines as bytes; text is encoded as UTF-8."""
    line = b" ".join((method.encode(), _to_bytes(target), version.encode()))
    return b"\r\n".join((line, *map(_to_bytes, headers), b"", b""))


def build_request(target: str | bytes, body: bytes, *headers: str | bytes, method: str = "POST") -> bytes:
    """Return a request to 127.0.0.1 with `Content-Length` and `Connection: close`."""
    more = ("Host: 127.0.0.1", f"Content-Length: {len(body)}", "Connection: close", *headers)
    return request_head(method, target, *more) + body


async def exchange(address: tuple[str, int], request: bytes, *, ends_after_answer: bool = False) -> bytes:
    """Return all data that the server sends until it closes the connection.

    `ends_after_answer`: this side ends after a complete response, for which a server waits that has refused a body."""
    reader, writer = await asyncio.open_connection(*address)
    try:
        writer.write(request)
        found = bytearray()
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            while piece := await reader.read(_READ_BYTES):
                found += piece
                if ends_after_answer and _is_complete(found):
                    writer.write_eof()
        return bytes(found)
    finally:
        writer.close()


def _is_complete(raw: bytearray) -> bool:
    """Return whether the data is a whole response with a `Content-Length`."""
    top, end, body = raw.partition(b"\r\n\r\n")
    lines = top.lower().split(b"\r\n")
    lengths = [line.removeprefix(b"content-length:") for line in lines if line.startswith(b"content-length:")]
    return bool(end and lengths) and len(body) >= int(lengths[0])


async def fetch_answer(address: tuple[str, int], request: bytes) -> RawAnswer:
    """Send a request that ends its connection (`Connection: close`, or refused with it); return the only response."""
    return parse_answer(await exchange(address, request, ends_after_answer=True))


def parse_answer(raw: bytes) -> RawAnswer:
    top, _, body = raw.partition(b"\r\n\r\n")
    status, *lines = top.decode("latin-1").split("\r\n")
    headers = dict(_parse_header(line) for line in lines)
    is_json = headers.get("content-type", "").startswith("application/json")
    return RawAnswer(int(status.split(" ")[1]), headers, orjson.loads(body) if is_json and body else body)


def _parse_header(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name.lower(), value.strip()


def _to_bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode()
