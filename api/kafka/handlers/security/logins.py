"""Handlers of SaslHandshake and SaslAuthenticate, with codecs of their own: a new connection needs no import for them.

The state of a login is in its connection (`login`). Tokens without Kafka headers, which follow SaslHandshake v0, are
requests of the pseudo-API `RAW`."""

from struct import Struct
from typing import Any, Final

from raftlog.api.kafka.api import ApiKey, KafkaApi, KafkaRequest
from raftlog.api.kafka.error_codes import ErrorCode
from raftlog.api.kafka.login import AuthenticateAnswer, KafkaLogin
from raftlog.api.kafka.wire.errors import MalformedRequest
from raftlog.api.kafka.wire.headers import is_flexible
from raftlog.api.kafka.wire.reader import RequestReader
from raftlog.api.kafka.wire.writer import FlexibleWriter, PlainWriter
from raftlog.security.sasl import MESSAGE_BYTES_MAX

_CODE: Final = Struct(">h")
_LIFETIME: Final = Struct(">q")
_LIFETIME_FROM: Final = 1


def make_login_apis() -> list[KafkaApi]:
    """Return the APIs of a listener that requires a login."""
    return [
        KafkaApi(ApiKey.SASL_HANDSHAKE, (0, 1), handshake, decode=decode_handshake, encode=encode_handshake),
        KafkaApi(
            ApiKey.SASL_AUTHENTICATE, (0, 2), authenticate, decode=decode_authenticate, encode=encode_authenticate
        ),
    ]


async def handshake(request: KafkaRequest) -> tuple[ErrorCode, tuple[str, ...]]:
    """Begin a login; return the error code and the offered mechanisms."""
    login: KafkaLogin = request.login
    return login.handshake(request.message, request.version), tuple(login.mechanisms)


async def authenticate(request: KafkaRequest) -> AuthenticateAnswer:
    """Process a message of the login."""
    login: KafkaLogin = request.login
    return await login.authenticate(request.message, request.caller)


async def authenticate_raw(request: KafkaRequest) -> bytes | None:
    """Process a login message that was sent without a Kafka header; a refusal has no answer."""
    answer = await authenticate(request)
    return answer.data if answer.code is ErrorCode.NONE else None


def decode_handshake(body: memoryview, version: int) -> str:
    """Decode the name of the mechanism. Raises `MalformedRequest`."""
    mechanism = RequestReader(body).string(is_compact=False)
    assert mechanism is not None, "not nullable"
    return mechanism


def encode_handshake(answer: tuple[ErrorCode, tuple[str, ...]], version: int) -> tuple[bytearray]:
    """Encode error code and mechanisms."""
    code, mechanisms = answer
    writer = PlainWriter()
    writer.out += _CODE.pack(code)
    writer.count(len(mechanisms))
    for name in mechanisms:
        writer.string(name)
    return (writer.out,)


def decode_authenticate(body: memoryview, version: int) -> bytes:
    """Decode the token. Raises `MalformedRequest`."""
    token = RequestReader(body).byte_string(is_compact=is_flexible(ApiKey.SASL_AUTHENTICATE, version))
    assert token is not None, "not nullable"
    return token


def encode_authenticate(answer: AuthenticateAnswer, version: int) -> tuple[bytearray]:
    """Encode error, token and lifetime of the session."""
    writer = FlexibleWriter() if is_flexible(ApiKey.SASL_AUTHENTICATE, version) else PlainWriter()
    writer.out += _CODE.pack(answer.code)
    writer.nullable_string(answer.message)
    writer.count(len(answer.data))
    writer.out += answer.data
    if version >= _LIFETIME_FROM:
        writer.out += _LIFETIME.pack(answer.lifetime_ms)
    writer.tags()
    return (writer.out,)


def _decode_raw(body: memoryview, version: int) -> bytes:
    """Return the bytes of a SASL token. Raises `MalformedRequest` if it is too long."""
    if len(body) > MESSAGE_BYTES_MAX:
        raise MalformedRequest(f"a token of {len(body)} bytes")
    return bytes(body)


def _encode_raw(answer: Any, version: int) -> tuple[bytes]:
    """Return the bytes of a SASL answer as the only buffer."""
    return (answer,)


RAW: Final = KafkaApi(ApiKey.SASL_AUTHENTICATE, (0, 0), authenticate_raw, decode=_decode_raw, encode=_encode_raw)
"""Pseudo-API of SASL tokens without Kafka headers, which follow SaslHandshake v0."""
