"""The client with a fixed rate: counted requests, and latencies from the time that each request was due."""

import json
import threading
from typing import Any

from bench.open_loop import offer
from tests.bench.answering import serve_answers

DONE = json.dumps({"offsets": [{"partition": 0, "offset": 5, "error_code": None, "error": None}]}).encode()
REFUSED = json.dumps({"offsets": [{"partition": 0, "offset": None, "error_code": 50302, "error": "…"}]}).encode()


def test_all_offered_requests_are_sent_with_distinct_values() -> None:
    values: list[str] = []

    def answer(path: str, body: Any) -> tuple[int, bytes]:
        assert path.startswith("/topics/t/partitions/0?")
        values.append(body["records"][0]["value"])
        return 200, DONE

    with serve_answers(answer) as port:
        done = offer([port], "t", per_s=200, seconds=0.5)
    assert done["offered"] == done["sent"] == done["succeeded"] == 100
    assert len(set(values)) == 100
    assert {len(value) for value in values} == {100}


def test_only_an_answer_with_an_offset_is_a_success() -> None:
    answers = iter([(200, DONE), (200, REFUSED), (503, DONE), (200, DONE)])
    with serve_answers(lambda path, body: next(answers)) as port:
        done = offer([port], "t", per_s=100, seconds=0.04)
    assert (done["sent"], done["succeeded"]) == (4, 2)


def test_requests_delayed_by_a_stalled_server_are_timed_from_their_due_time() -> None:
    """48 connections wait in the stall; requests that were due meanwhile were not sent, and count all the same."""
    gate = threading.Event()

    def answer(path: str, body: Any) -> tuple[int, bytes]:
        gate.wait()
        return 200, DONE

    opener = threading.Timer(0.6, gate.set)
    with serve_answers(answer) as port:
        opener.start()
        done = offer([port], "t", per_s=400, seconds=0.5)
        opener.join()
    assert done["succeeded"] == done["offered"] == 200
    assert done["p50_ms"] > 200, "half of them were due 250 ms before the server went on, or earlier"
    assert done["max_ms"] > 400
