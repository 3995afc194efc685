"""Logins with SCRAM-SHA-256 over the Kafka protocol at a fixed rate, each on a connection of its own.

The salted password is computed once (RFC 5802 lets a client keep it), so a login costs the client two HMACs, as many as
it costs the broker. Versions: SaslHandshake 1, SaslAuthenticate 0."""

import asyncio
import hashlib
import hmac
import json
import secrets
import struct
import subprocess
from base64 import b64decode, b64encode
from collections.abc import Generator, Sequence
from typing import Any, Final, Self, TypeAlias

from bench.measure import require
from bench.samples import percentile

_HANDSHAKE: Final = (17, 1)
_AUTHENTICATE: Final = (36, 0)
_MECHANISM: Final = b"SCRAM-SHA-256"
_LOGIN_S_MAX: Final = 30.0
_END_S_MAX: Final = 60.0
Request: TypeAlias = tuple[tuple[int, int], bytes]
"""Key and version of a Kafka API, and the body of a request."""


class ScramClient:
    """Client that logs in many times as one user."""

    def __init__(self, user: str, password: str) -> None:
        self._user, self._password = user, password.encode()
        self._salted: dict[tuple[bytes, int], bytes] = {}
        """Salted passwords by salt and iterations."""

    def _salt(self, salt: bytes, iterations: int) -> bytes:
        """Return the salted password; it is computed once for each salt and number of iterations."""
        key = salt, iterations
        if key not in self._salted:
            self._salted[key] = hashlib.pbkdf2_hmac("sha256", self._password, salt, iterations)
        return self._salted[key]

    async def log_in(self, host: str, port: int) -> None:
        """Open a connection, log in, and close it. Raises `OSError` and `MeasureFailed`."""
        reader, writer = await asyncio.open_connection(host, port)
        try:
            steps = self.log_in_steps()
            request: Request | None = next(steps)
            while request is not None:
                writer.write(encode_request(*request))
                size = int.from_bytes(await reader.readexactly(4), "big")
                request = next_request(steps, (await reader.readexactly(size))[4:])
        finally:
            writer.close()

    def log_in_steps(self) -> Generator[Request, bytes, None]:
        """Yield the requests of a login, each after the answer to the one before. Raises `MeasureFailed`.

        Answers are passed without their correlation id."""
        answer = yield _HANDSHAKE, struct.pack(">h", len(_MECHANISM)) + _MECHANISM
        require(answer[:2] == b"\0\0", f"the handshake was refused: {answer!r}")
        bare = f"n={self._user},r={secrets.token_urlsafe(18)}"
        server_first = yield from _exchange(f"n,,{bare}")
        fields = dict(field.split("=", 1) for field in server_first.split(","))
        salted = self._salt(b64decode(fields["s"]), int(fields["i"]))
        unsigned = f"c=biws,r={fields['r']}"
        signed = f"{bare},{server_first},{unsigned}".encode()
        client_key = _hmac(salted, b"Client Key")
        signature = _hmac(hashlib.sha256(client_key).digest(), signed)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        server_final = yield from _exchange(f"{unsigned},p={b64encode(proof).decode()}")
        expected = b64encode(_hmac(_hmac(salted, b"Server Key"), signed)).decode()
        require(server_final == f"v={expected}", f"the broker's signature differs: {server_final}")


def _hmac(key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, "sha256")


def _exchange(message: str) -> Generator[Request, bytes, str]:
    """Yield the request with a message of the client, and return the server's message."""
    token = message.encode()
    answer = yield _AUTHENTICATE, struct.pack(">i", len(token)) + token
    error, size = struct.unpack_from(">hh", answer)
    at = 4 + max(0, size)
    require(error == 0, f"the login was refused with {error}: {answer[4:at].decode()}")
    return answer[at + 4 :].decode()


def next_request(steps: Generator[Request, bytes, None], answer: bytes) -> Request | None:
    """Return the next request of a login after an answer, or None if the login is complete."""
    try:
        return steps.send(answer)
    except StopIteration:
        return None


def encode_request(api: tuple[int, int], body: bytes) -> bytes:
    """Return a Kafka request of an API key and version, with its length."""
    request = struct.pack(">hhih", *api, 1, -1) + body
    return struct.pack(">i", len(request)) + request


def log_in(address: str, user: str, password: str, count: int, seconds: float) -> dict[str, Any]:
    """Log in `count` times, evenly spread over `seconds`; in a child process."""
    return asyncio.run(_log_in(address, user, password, count, seconds))


async def _log_in(address: str, user: str, password: str, count: int, seconds: float) -> dict[str, Any]:
    """Log in `count` times, evenly spread over `seconds`; return the latencies."""
    host, _, port = address.rpartition(":")
    client, loop = ScramClient(user, password), asyncio.get_running_loop()
    begin = loop.time()
    took: list[float] = []

    async def run(due: float) -> None:
        """Log in, and record the time since the login was due."""
        async with asyncio.timeout(_LOGIN_S_MAX):
            await client.log_in(host, int(port))
        took.append(loop.time() - due)

    async with asyncio.TaskGroup() as tasks:
        for number in range(count):
            due = begin + number * seconds / count
            await asyncio.sleep(max(0.0, due - loop.time()))
            tasks.create_task(run(due))
    took.sort()
    return {"logins": len(took), "p50_ms": percentile(took, 50) * 1000, "p99_ms": percentile(took, 99) * 1000}


class Logins:
    """Logins in a process of their own, from the beginning of a block; killed at its end if they still run."""

    def __init__(self, command: Sequence[str], **arguments: Any) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self._arguments = arguments

    def __enter__(self) -> Self:
        assert self._process.stdin is not None, "stdin is a pipe"
        self._process.stdin.write(json.dumps(self._arguments))
        self._process.stdin.close()
        self._process.stdin = None
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def end(self) -> dict[str, Any]:
        """Wait for the last login; return their number and latencies. Raises `MeasureFailed` if any failed."""
        printed, errors = self._process.communicate(timeout=_END_S_MAX)
        require(self._process.returncode == 0, f"the logins failed: {errors[-600:]}")
        return dict(json.loads(printed.splitlines()[-1]))
