"""Handler of ApiVersions: the APIs and versions that this listener serves.

It is the first request of most connections, so it has its own codec, and its answers are encoded in advance. A request
in a version that is not served gets an answer of version 0 with error 35 and the served versions of ApiVersions, so
that the client can retry with one of them."""

import logging
import re
from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

from raftlog.api.kafka.api import ApiKey, KafkaApi, KafkaRequest
from raftlog.api.kafka.error_codes import ErrorCode
from raftlog.api.kafka.wire.headers import is_flexible
from raftlog.api.kafka.wire.reader import RequestReader

logger = logging.getLogger(__name__)

VERSIONS: Final = (0, 3)
_THROTTLE_FROM: Final = 1
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.\-]*[a-zA-Z0-9])?")
_ERROR_AND_COUNT, _ROW, _ROW_TAGGED = Struct(">hi"), Struct(">hhh"), Struct(">hhhb")
_VARINT_1_BYTE_MAX: Final = 127


class ClientSoftware(NamedTuple):
    """Name and version of a client's library; both are empty before version 3."""

    name: str
    version: str


Rows = Sequence[tuple[int, int, int]]
"""Key, first and last version of each API."""


class ApiVersionsHandler:
    """Handler of ApiVersions; `set_apis` is called once all APIs, including ApiVersions, are declared."""

    def __init__(self) -> None:
        self._answers: dict[tuple[int, ErrorCode], bytes] = {}

    def api(self) -> KafkaApi:
        """Return the declaration of ApiVersions."""
        return KafkaApi(ApiKey.API_VERSIONS, VERSIONS, self.handle, decode=decode_request, encode=self.encode)

    def set_apis(self, apis: Sequence[KafkaApi]) -> None:
        """Encode the answers in advance for these APIs."""
        rows = [(int(api.key), *api.versions) for api in sorted(apis)]
        own = [row for row in rows if row[0] == ApiKey.API_VERSIONS]
        for version in range(VERSIONS[0], VERSIONS[1] + 1):
            self._answers[version, ErrorCode.NONE] = encode_answer(version, ErrorCode.NONE, rows)
            self._answers[version, ErrorCode.INVALID_REQUEST] = encode_answer(version, ErrorCode.INVALID_REQUEST, ())
        self._answers[0, ErrorCode.UNSUPPORTED_VERSION] = encode_answer(0, ErrorCode.UNSUPPORTED_VERSION, own)

    async def handle(self, request: KafkaRequest) -> ErrorCode:
        """Check the client's software name and version, and return the error code of the answer."""
        software: ClientSoftware = request.message
        if is_flexible(request.key, request.version):
            if not all(map(_SOFTWARE.fullmatch, software)):
                return ErrorCode.INVALID_REQUEST
            caller = request.caller
            logger.debug("client %r at %s is %s %s", caller.client_id, caller.address, software.name, software.version)
        return ErrorCode.NONE

    async def refuse(self, request: KafkaRequest) -> ErrorCode:
        """Return the error code for a version of ApiVersions that is not served."""
        return ErrorCode.UNSUPPORTED_VERSION

    def encode(self, code: ErrorCode, version: int) -> tuple[bytes]:
        """Return the encoded answer for an error code."""
        return (self._answers[version, code],)


def decode_request(body: memoryview, version: int) -> ClientSoftware:
    """Decode a request of versions 0 to 3. Raises `MalformedRequest`."""
    reader = RequestReader(body)
    software = ClientSoftware("", "")
    if is_flexible(ApiKey.API_VERSIONS, version):
        name, library_version = reader.string(is_compact=True), reader.string(is_compact=True)
        software = ClientSoftware(name or "", library_version or "")
        reader.skip_tagged_fields()
    return software


def encode_answer(version: int, code: ErrorCode, rows: Rows) -> bytes:
    """Encode an answer with the rows of the APIs; it has no throttle time and announces no features."""
    assert len(rows) < _VARINT_1_BYTE_MAX, f"{len(rows)} APIs need a longer varint"
    if is_flexible(ApiKey.API_VERSIONS, version):
        body = code.to_bytes(2, "big", signed=True) + bytes((len(rows) + 1,))
        return body + b"".join(_ROW_TAGGED.pack(*row, 0) for row in rows) + bytes(4) + bytes(1)
    body = _ERROR_AND_COUNT.pack(code, len(rows)) + b"".join(_ROW.pack(*row) for row in rows)
    return body + bytes(4) if version >= _THROTTLE_FROM else body
