"""Request body of any length that is read piece by piece.

At most two of aiohttp's buffers (512 KiB) are received ahead of the reader; then the sender has to wait. The only time
limit is for silence while the reader waits for the next piece. Used by `ndjson_ingest` and `octet_stream`."""

import asyncio
from collections.abc import Iterator

from aiohttp import web

from raftlog.api.codes import BAD_REQUEST, BODY_TOO_SLOW
from raftlog.api.http.server.content_encoding import PIECE_BYTES_MAX, decoder_of
from raftlog.api.http.server.problems import HttpProblem
from raftlog.api.http.server.request_headers import expects_continue


class StreamedBody:
    """Reader of one request body, piece by piece.

    `at_end` is true once everything was received and returned."""

    def __init__(self, request: web.BaseRequest, silence_ms: int) -> None:
        """Create a reader of a body; raises `HttpProblem` 415 for an unsupported `Content-Encoding`."""
        self._decoder = decoder_of(request)
        self._opened: Iterator[bytes] = iter(())
        """Decoded bytes left from the last received bytes."""
        self.at_end = False
        self._request, self._content = request, request.content
        self._silence_s = silence_ms / 1000
        self._is_asked_for = not expects_continue(request)

    async def piece(self) -> bytes:
        """Return the next decoded bytes of the body, empty at the end.

        Raises `HttpProblem`: 408 after silence, 400 when the body ended early or cannot be decoded."""
        decoder = self._decoder
        if decoder is None:
            return await self._receive()
        while (piece := next(self._opened, None)) is None:
            if self._content.at_eof():
                decoder.check_complete()
                self.at_end = True
                return b""
            self._opened = decoder.pieces(await self._receive())
            self.at_end = False
        return piece

    async def _receive(self) -> bytes:
        """Return the next received bytes, after `100 Continue` if the client waits for it. Raises `HttpProblem`."""
        try:
            if not self._is_asked_for:
                self._is_asked_for = True
                await self._request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                self._request.writer.output_size = 0
            async with asyncio.timeout(self._silence_s):
                piece = await self._content.read(PIECE_BYTES_MAX)
        except TimeoutError:
            raise HttpProblem(
                BODY_TOO_SLOW, f"no data of the body arrived for {self._silence_s:g} s; send an empty line more often"
            ) from None
        except (ConnectionError, web.RequestPayloadError) as error:
            raise HttpProblem(BAD_REQUEST, f"the body ended early ({error})") from None
        self.at_end = self._content.at_eof()
        return piece
