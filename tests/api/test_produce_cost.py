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
CALLS_MAX = 120
"""Calls of Python functions for one request of one record, those of aiohttp and resumed coroutines included."""
LEADER_CALLS = 10
"""Calls for the header that names the partition's leader."""
BODY = b'{"records":[{"value":"' + b"x" * 100 + b'"}]}'
HEADERS = {"Content-Type": "application/vnd.kafka.json.v2+json"}


class Clients:
    """Connections with one request in flight each, used in a thread whose calls are not counted."""

    def __init__(self, address: tuple[str, int], path: str) -> None:
        self._connections = [http.client.HTTPConnection(*address) for _ in range(IN_FLIGHT)]
        self._path = path

    def run(self, rounds: int) -> set[int]:
        """Repeat `rounds` times: send a request on every connection, then read all answers. Return the statuses."""
        statuses = set()
        for _ in range(rounds):
            for connection in self._connections:
                connection.request("POST", self._path, BODY, HEADERS)
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

    with ThreadPoolExecutor(1) as pool:
        loop = asyncio.get_running_loop()
        assert await loop.run_in_executor(pool, clients.run, 2) == {200}
        sys.setprofile(count)
        try:
            statuses = await loop.run_in_executor(pool, clients.run, ROUNDS)
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
