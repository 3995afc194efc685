"""HTTP requests to a broker, a new connection for each, for tests that send few requests and have no event loop."""

import http.client
from typing import Any, Final

import orjson

from raftlog.client.addresses import BrokerAddresses, base_url, host_of
from raftlog.testing.errors import BrokerFailed

ANSWER_SECONDS_MAX: Final = 10.0


def ask(
    address: str,
    path: str,
    *,
    method: str = "GET",
    body: object = None,
    timeout_s: float = ANSWER_SECONDS_MAX,
    access: BrokerAddresses | None = None,
) -> tuple[int, Any]:
    """Send a request; return the status and the JSON body (None if empty). Raises `BrokerFailed` without an answer.

    `access` has the authority, certificate and login for an address `https://HOST:PORT`."""
    access = BrokerAddresses.of(address) if access is None else access.with_addresses([address])
    host, _, port = host_of(access[0]).rpartition(":")
    context = access.ssl_context()
    connection = (
        http.client.HTTPConnection(host, int(port), timeout=timeout_s)
        if context is None
        else http.client.HTTPSConnection(host, int(port), timeout=timeout_s, context=context)
    )
    try:
        headers = access.headers() | ({"Content-Type": "application/json"} if body is not None else {})
        connection.request(method, path, orjson.dumps(body) if body is not None else None, headers)
        with connection.getresponse() as answer:  # it has the socket when the broker closes the connection
            content = answer.read()
        return answer.status, orjson.loads(content) if content else None
    except (OSError, http.client.HTTPException, orjson.JSONDecodeError) as error:
        raise BrokerFailed(f"{method} {base_url(access[0])}{path}: {error or type(error).__name__}") from error
    finally:
        connection.close()
