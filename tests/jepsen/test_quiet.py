"""Success rate in times without faults and the rate of requests, in histories written by hand."""

from typing import Any

import orjson

from jepsen.checkers import Recorder
from jepsen.nemeses.fault import InjectedFault
from jepsen.runner.quiet import KindFigures, OfferedFigures, QuietFigures, Requests, quiet_spans
from jepsen.runner.verdict import check_file

S = 1_000_000_000
KILL = InjectedFault("kill", "kill node 1", 5.0, 6.0, "", 7.0)
"""Quiet time is 0 to 5 and 9 to 20 of a load of 20 s."""


class RecordedRequests:
    """Requests with their times in seconds, in any order of their ends."""

    def __init__(self) -> None:
        self.requests = Requests()
        self._now = 0.0
        self._told = Recorder(lambda: round(self._now * S), lambda _op: None)

    def add(
        self, kind: Any, began: float, ended: float | None, outcome: str = "ok", error: str = "", node: int = 0
    ) -> None:
        """Add a request of a client with the times of its begin and end; None: it has not ended."""
        self._now = began
        invocation = self._told.invoke(1, kind)
        self.requests.add_invocation(invocation, node)
        if ended is None:
            self.requests.add_unfinished(invocation)
            return
        self._now = ended
        op = self._told.ok(invocation)
        self.requests.add_completion(invocation, op._replace(type=outcome, error=error))

    def list_quiet_times(self) -> QuietFigures:
        return self.requests.quiet([KILL], 0, 20.0)


def test_quiet_times_are_the_times_without_faults() -> None:
    assert quiet_spans([(2, 5), (4, 6), (9, 30)], 20) == [(0, 2), (6, 9)]
    assert quiet_spans([], 20) == [(0, 20)]
    assert quiet_spans([(0, 1)], 20) == [(1, 20)]
    assert quiet_spans([(0, 1), (21, 22)], 20) == [(1, 20)]


def test_requests_to_a_broker_that_has_left_do_not_count() -> None:
    asked = RecordedRequests()
    for second, outcome in ((1, "ok"), (2, "fail"), (12, "fail"), (13, "fail")):
        asked.add("poll", second, second + 0.5, outcome, "NotListening: refused", node=2)
        asked.add("poll", second + 0.6, second + 0.7, node=3)
    left = InjectedFault("members", "leave node 2", 2.2, 2.3, "it was told", 2.3, leaves=(2,))
    found = asked.requests.quiet([left], 0, 20.0)
    assert found.kinds == {"poll": KindFigures(4, 4)}, "node 2 before it left, and node 3 but for 2 s around that"
    assert found.failures == ()


def test_success_is_counted_by_kind_and_in_quiet_times_only() -> None:
    asked = RecordedRequests()
    for second in range(20):
        asked.add("send", second, second + 0.1, "fail" if 5 <= second < 9 else "ok", "Unavailable: nobody leads")
    asked.add("poll", 1.0, 1.1, "fail", "Unavailable: nobody leads")
    asked.add("poll", 2.0, 2.1)
    asked.add("commit", 3.0, 3.1, "fail", "StaleGeneration: 7")
    asked.add("assign", 3.0, 3.1, "info")
    found = asked.list_quiet_times()
    assert found.seconds == 16.0
    assert found.kinds == {"commit": KindFigures(1, 1), "poll": KindFigures(2, 1), "send": KindFigures(16, 16)}
    assert found.as_json()["share"] == 1.0
    assert [(each.at_s, each.kind, each.took_s) for each in found.failures] == [(1.0, "poll", 0.1)]


def test_interrupted_waits_do_not_count_and_hanging_ones_do() -> None:
    asked = RecordedRequests()
    asked.add("send", 4.9, 5.2, "info", "DeadlineExceeded: no answer")  # the fault began meanwhile
    asked.add("send", 8.9, 9.1)  # and this one had begun before it was over
    asked.add("send", 19.9, None)  # the end of the load
    assert asked.list_quiet_times().kinds == {}
    asked.add("send", 9.5, None)
    asked.add("send", 9.5, 15.5)
    asked.add("send", 10.0, 21.0)
    found = asked.list_quiet_times()
    assert found.sends == KindFigures(3, 0)
    assert [each.outcome for each in found.failures] == ["open"], "the others were answered, too late"


def test_the_first_failures_are_shown() -> None:
    asked = RecordedRequests()
    for number in reversed(range(30)):
        asked.add("list", 10 + number / 10, 10.05 + number / 10, "fail", f"Unavailable: {number}")
    failures = asked.list_quiet_times().failures
    assert [each.error for each in failures] == [f"Unavailable: {number}" for number in range(10)]


def test_requests_count_by_their_beginning_within_the_load() -> None:
    asked = RecordedRequests()
    for tenth in range(-20, 250):
        if not 52 <= tenth < 57:
            asked.add("send", tenth / 10 + 2, None)
    assert asked.requests.offered_figures([KILL], 2 * S, 20.0) == OfferedFigures(9.8, 1.0, 5.0)
    assert asked.requests.offered_figures([], 2 * S, 20.0) == OfferedFigures(9.8, 0.0, None)
    assert asked.requests.offered_figures([], 2 * S, 0.0) == OfferedFigures(0.0, 0.0, None), "the load never began"


def test_requests_are_read_from_the_checked_history(tmp_path: Any) -> None:
    send = {"kind": "send", "value": {"partition": "t/0", "values": [1], "offsets": []}}
    gone = {"kind": "send", "value": {"partition": "t@id/0", "values": [2], "offsets": []}}
    entries = [
        {"time": S, "process": 1, "type": "invoke", **send},
        {"time": 2 * S, "process": 1, "type": "info", "error": "OutcomeUnknown", "acks": "all", **send},
        {"time": 2 * S, "process": 2, "type": "invoke", **gone},
        {"time": 3 * S, "process": 2, "type": "fail", "error": "UnknownTopic: t", "acks": "all", **gone},
        {"time": 3 * S, "process": 3, "type": "invoke", "kind": "poll"},
        {"time": 3 * S, "process": 3, "type": "info", "kind": "crash"},
        {"time": 3 * S, "process": 4, "type": "invoke", "kind": "poll"},
    ]
    path = tmp_path / "history.jsonl"
    path.write_bytes(b"".join(orjson.dumps(entry, option=orjson.OPT_APPEND_NEWLINE) for entry in entries))
    checked = check_file(path, drained=False)
    assert not checked.findings.counts
    assert checked.counts == {"send": {"info": 1, "fail": 1}, "poll": {"open": 2}}
    assert checked.asked_all == 1
    assert checked.requests.quiet([], 0, 20.0).kinds == {"poll": KindFigures(1, 0), "send": KindFigures(1, 0)}
