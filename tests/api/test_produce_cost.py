"""Python calls that one record costs in the broker: a step added to the hot path raises the count."""

import asyncio
import http.client
import os
import selectors
import sys
from concurrent.futures import ThreadPoolExecutor
from types import FrameType

LOOP = (os.path.dirname(asyncio.__file__), selectors.__file__)
"""Files of the event loop in tests; brokers run on another one, in C."""
IN_FLIGHT = 32
ROUNDS = 10
UNCOUNTED_ROUNDS = 2
"""Rounds before the counted ones: the server accepts the connections, and remembers the head of the requests."""
CALLS_MAX = 65
"""Calls of Python functions for one request of one record, those of aiohttp and resumed coroutines included."""
LEADER_CALLS = 11
"""Calls for the header that names the partition's leader."""
BODY = b'{"records":[{"value":"' + b"x" * 100 + b'"}]}'
HEADERS = {"Content-Type": "application/vnd.kafka.json.v2+json"}


class Clients:
    """Connections with one request in flight each. All requests of a round are sent before the server runs again."""

    def __init__(self, address: tuple[str, int], path: str) -> None:
        self._connections = [http.client.HTTPConnection(*address) for _ in range(IN_FLIGHT)]
        self._path = path

    def send(self) -> None:
        """Send a request on every connection."""
        for connection in self._connections:
            connection.request("POST", self._path, BODY, HEADERS)

    def receive(self) -> set[int]:
        """Read all answers; return their statuses. Runs in a thread whose calls are not counted."""
        statuses = set()
        for connection in self._connections:
            with connection.getresponse() as answer:
                statuses.add(answer.status)
                answer.read()
        return statuses

    def close(self) -> None:
        for connection in self._connections:
            connection.close()


async def count_calls_per_request(api, path: str) -> float:
    """Return the number of Python calls in the loop's thread per request."""
    clients, calls = Clients(api.address, path), 0

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        calls += event == "call" and not frame.f_code.co_filename.startswith(LOOP)

    statuses = set()
    with ThreadPoolExecutor(1) as pool:
        for number in range(UNCOUNTED_ROUNDS + ROUNDS):
            clients.send()
            if number >= UNCOUNTED_ROUNDS:
                sys.setprofile(count)
            try:
                statuses |= await asyncio.get_running_loop().run_in_executor(pool, clients.receive)
            finally:
                sys.setprofile(None)
    assert statuses == {200}
    clients.close()
    return calls / (ROUNDS * IN_FLIGHT)


async def test_a_record_costs_few_calls(api):
    await api.create_topic()
    assert await count_calls_per_request(api, "/topics/t") <= CALLS_MAX


async def test_a_record_for_a_named_partition_costs_few_calls(api):
    await api.create_topic()
    assert await count_calls_per_request(api, "/topics/t/partitions/0") <= CALLS_MAX + LEADER_CALLS
