"""A request body that is taken piece by piece, as long as it may be.

What is not taken stays with the sender: at most two of aiohttp's buffers (512 KiB) are received ahead. Only silence is
bounded, and only while somebody waits for the next piece. Used by `ndjson_ingest` and `octet_stream`.
"""

import asyncio

from aiohttp import web

from raftlog.api.codes import BAD_REQUEST, BODY_TOO_SLOW, WRONG_CONTENT_TYPE
from raftlog.api.http.problems import HttpProblem

_ENCODINGS = ("", "identity", "gzip", "deflate")
PIECE_BYTES_MAX = 64 * 1024
"""A piece has at most this, so that what is done with it never holds up the loop for long."""


class StreamedBody:
    """`at_end` once everything was received and taken."""

    def __init__(self, request: web.BaseRequest, silence_ms: int) -> None:
        """Raises `HttpProblem` 415 for a `Content-Encoding` that cannot be undone."""
        encoding = request.headers.get("Content-Encoding", "").strip().lower()
        if encoding not in _ENCODINGS:
            raise HttpProblem(
                WRONG_CONTENT_TYPE, f"Content-Encoding {encoding!r} is not possible here; it can be gzip or deflate"
            )
        self.at_end = False
        self._request, self._content = request, request.content
        self._silence_s = silence_ms / 1000
        self._is_asked_for = request.headers.get("Expect", "").lower() != "100-continue"

    async def piece(self) -> bytes:
        """The next bytes, empty at the end. Raises `HttpProblem`: 408 after silence, 400 when it ended early."""
        try:
            if not self._is_asked_for:
                self._is_asked_for = True
                await self._request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                self._request.writer.output_size = 0
            async with asyncio.timeout(self._silence_s):
                piece = await self._content.read(PIECE_BYTES_MAX)
        except TimeoutError:
            raise HttpProblem(
                BODY_TOO_SLOW, f"nothing of the body came for {self._silence_s:g} s; send an empty line now and then"
            ) from None
        except (ConnectionError, web.RequestPayloadError) as error:
            raise HttpProblem(BAD_REQUEST, f"the body ended early ({error})") from None
        self.at_end = self._content.at_eof()
        return piece
