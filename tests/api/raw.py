"""Requests as bytes on a socket, for what no HTTP client sends."""

import asyncio
from typing import Any, NamedTuple

import orjson

ANSWER_SECONDS_MAX = 10.0


class RawAnswer(NamedTuple):
    """Status line, headers in small letters, and the JSON of the body, or the bytes where it is none."""

    status: int
    headers: dict[str, str]
    body: Any


def head(method: str, target: str | bytes, *headers: str | bytes, version: str = "HTTP/1.1") -> bytes:
    """Return a request line and the given header lines; text as UTF-8."""
    line = b" ".join((method.encode(), _bytes(target), version.encode()))
    return b"\r\n".join((line, *map(_bytes, headers), b"", b""))


def post(target: str | bytes, body: bytes, *headers: str | bytes, method: str = "POST") -> bytes:
    """Return a request to 127.0.0.1 with a body of stated length, after which the server is to close the connection."""
    more = ("Host: 127.0.0.1", f"Content-Length: {len(body)}", "Connection: close", *headers)
    return head(method, target, *more) + body


async def exchange(address: tuple[str, int], request: bytes) -> bytes:
    """Return all data that the server sends until it closes the connection."""
    reader, writer = await asyncio.open_connection(*address)
    try:
        writer.write(request)
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            return await reader.read()
    finally:
        writer.close()


async def answer_to(address: tuple[str, int], request: bytes) -> RawAnswer:
    """Return the only response to a request that has `Connection: close` or is refused with the connection."""
    return parsed(await exchange(address, request))


def parsed(raw: bytes) -> RawAnswer:
    top, _, body = raw.partition(b"\r\n\r\n")
    status, *lines = top.decode("latin-1").split("\r\n")
    headers = dict(_header(line) for line in lines)
    is_json = headers.get("content-type", "").startswith("application/json")
    return RawAnswer(int(status.split(" ")[1]), headers, orjson.loads(body) if is_json and body else body)


def _header(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name.lower(), value.strip()


def _bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode()
