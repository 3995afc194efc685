"""HTTP requests to a broker, one connection for each, for tests that send few and have no event loop."""

import http.client
from typing import Any, Final

import orjson

from raftlog.testing.errors import BrokerFailed

ANSWER_SECONDS_MAX: Final = 10.0


def ask(
    address: str, path: str, *, method: str = "GET", body: object = None, timeout_s: float = ANSWER_SECONDS_MAX
) -> tuple[int, Any]:
    """Send a request; return the status and the JSON body (None if empty). Raises `BrokerFailed` without an answer."""
    host, _, port = address.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=timeout_s)
    try:
        headers = {"Content-Type": "application/json"} if body is not None else {}
        connection.request(method, path, orjson.dumps(body) if body is not None else None, headers)
        with connection.getresponse() as answer:  # it has the socket when the broker closes the connection
            content = answer.read()
        return answer.status, orjson.loads(content) if content else None
    except (OSError, http.client.HTTPException, orjson.JSONDecodeError) as error:
        raise BrokerFailed(f"{method} http://{address}{path}: {error or type(error).__name__}") from error
    finally:
        connection.close()
