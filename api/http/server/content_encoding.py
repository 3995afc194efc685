"""Decoder of request bodies with `Content-Encoding: gzip` or `deflate`, in place of aiohttp's.

    received bytes → decoded pieces of at most `PIECE_BYTES_MAX` → at the end: complete, or refused as truncated

aiohttp accepts a truncated gzip body as complete, and logs a traceback for each invalid one. Several gzip
members one after another are one body, as RFC 1952 requires. Used by `bodies` and `streamed_body`."""

import zlib
from collections.abc import Iterator
from typing import Any, Final

from aiohttp import web

from raftlog.api.codes import BAD_REQUEST, WRONG_CONTENT_TYPE
from raftlog.api.http.server.problems import HttpProblem
from raftlog.api.http.server.request_headers import header

PIECE_BYTES_MAX: Final = 64 * 1024
"""Maximum size of a decoded piece, so small that its processing does not block the loop for long."""
_FED_BYTES_MAX: Final = 4 * 1024
"""Bytes passed to zlib in one call; few, because at the end of a gzip member zlib copies the rest of them."""
_GZIP: Final = 16 + zlib.MAX_WBITS
_ZLIB: Final = zlib.MAX_WBITS
_DEFLATE: Final = -zlib.MAX_WBITS
_ZLIB_METHOD: Final = 8
"""The low half of the first byte of a zlib stream; some clients send `deflate` without that header."""


class ContentDecoder:
    """Decoder of one body; `encoding` is gzip or deflate."""

    def __init__(self, encoding: str) -> None:
        self._encoding = encoding
        self._stream: Any = None
        """Decompressor of the gzip member that is being read, None between members; deflate has only one."""

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Yield decoded bytes in pieces. Raises `HttpProblem` 400 for bytes that cannot be decoded."""
        for start in range(0, len(data), _FED_BYTES_MAX):
            yield from self._decode(data[start : start + _FED_BYTES_MAX])

    def check_complete(self) -> None:
        """Raise `HttpProblem` 400 if the compressed data is truncated. An empty body is complete."""
        if self._stream is not None and not self._stream.eof:
            raise HttpProblem(
                BAD_REQUEST,
                f"the {self._encoding} body is truncated; send all of it again",
            )

    def _decode(self, data: bytes) -> Iterator[bytes]:
        """Yield the decoded bytes of one piece; a gzip body can have several members."""
        while data:
            stream = self._stream = self._stream or zlib.decompressobj(self._window_bits(data))
            piece = self._decompress(stream, data)
            while piece:
                yield piece
                # Output can wait inside although all input was taken.
                piece = self._decompress(stream, stream.unconsumed_tail) if not stream.eof else b""
            data = stream.unused_data if stream.eof else b""
            if stream.eof and self._encoding == "gzip":
                self._stream = None

    def _decompress(self, stream: Any, data: bytes) -> bytes:
        """Return the next decompressed piece, at most `PIECE_BYTES_MAX` bytes.

        Raises `HttpProblem` for bytes that are not in the encoding."""
        try:
            if stream.eof:
                raise zlib.error("bytes after the end")
            opened: bytes = stream.decompress(data, PIECE_BYTES_MAX)
        except zlib.error as error:
            raise HttpProblem(BAD_REQUEST, f"the body is not {self._encoding}: {error}") from None
        return opened

    def _window_bits(self, data: bytes) -> int:
        """Return zlib's parameter for the encoding; raw deflate is recognized by its first byte."""
        if self._encoding == "gzip":
            return _GZIP
        return _ZLIB if data[0] & 0xF == _ZLIB_METHOD else _DEFLATE


def decoder_of(request: web.BaseRequest) -> ContentDecoder | None:
    """Return the decoder of a request's body; None for a body without encoding. Raises `HttpProblem` 415."""
    encoding = header(request, "Content-Encoding")
    if encoding is None:
        return None
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return None
    if name not in ("gzip", "x-gzip", "deflate"):
        raise HttpProblem(
            WRONG_CONTENT_TYPE, f"Content-Encoding {encoding!a:.80} is not possible here; it can be gzip or deflate"
        )
    return ContentDecoder(name.removeprefix("x-"))
