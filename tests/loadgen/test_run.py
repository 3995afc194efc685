"""Load runs in virtual time: counted requests, the start of the measurement, and the reported figures."""

from collections import Counter

import pytest

from raftlog.errors import InvalidArgument
from raftlog.loadgen import LoadMode, LoadPlan, LoadRun, Mix, Result, Targeting, Work
from raftlog.loadgen.run import LEAD_S
from raftlog.loadgen.wire import LOST, NEVER_SENT
from tests.loadgen.virtual import PLACE, SENT, Script, VirtualWire

BEGIN = 100.0 + LEAD_S


def make_plan(mode: LoadMode = LoadMode.OPEN, **changes: object) -> LoadPlan:
    fields = {"mode": mode, "seconds": 4.0, "mix": Mix.parse("send"), "rate": 100.0, "clients": 2, "in_flight": 1}
    return LoadPlan(**{**fields, **changes})  # type: ignore[arg-type]


def run_load(plan: LoadPlan, script: Script) -> tuple[Result, VirtualWire]:
    wire = VirtualWire(script)
    return LoadRun(plan, wire, Work(plan, PLACE)).run(), wire


def answer_quickly(_begun: float, _address: str, _request: bytes) -> tuple[float, int, bytes, str]:
    return 0.001, 200, SENT, ""


def stall_for_a_second(begun: float, _address: str, _request: bytes) -> tuple[float, int, bytes, str]:
    """Answer at once, but stall during the second that starts one second after the begin of the run."""
    stall_ends = BEGIN + 2.0
    waits = stall_ends - begun if BEGIN + 1.0 <= begun < stall_ends else 0.0
    return waits + 0.001, 200, SENT, ""


def test_an_open_loop_counts_a_stall_for_all_delayed_requests() -> None:
    """Two requests were under way in the stall; a hundred were due. No coordinated omission."""
    result, _ = run_load(make_plan(), stall_for_a_second)
    assert (result.offered, result.succeeded) == (400, 400)
    latencies = result.latencies()
    assert latencies.percentile_ms(100) == pytest.approx(1000, rel=0.01)
    assert latencies.percentile_ms(87.5) == pytest.approx(550, rel=0.15), (
        "an eighth waited for half the stall, and longer"
    )
    assert latencies.percentile_ms(60) < 5, "the rest was quick"
    assert result.longest_gap_s == pytest.approx(1.0, rel=0.02)


def test_a_closed_loop_measures_the_same_stall_at_most_twice() -> None:
    result, _ = run_load(make_plan(LoadMode.CLOSED), stall_for_a_second)
    assert result.latencies().percentile_ms(100) == pytest.approx(1000, rel=0.01)
    assert result.latencies().percentile_ms(99) < 5
    assert result.longest_gap_s == pytest.approx(1.0, rel=0.02)


def test_a_run_ends_although_the_cluster_is_too_slow() -> None:
    """A hundred requests a second are offered, and ten are answered; those not begun 2 s after the end fail."""

    def slow(begun: float, address: str, request: bytes) -> tuple[float, int, bytes, str]:
        return 0.1, 200, SENT, ""

    result, wire = run_load(make_plan(timeout_ms=2_000), slow)
    assert result.offered == 400
    assert result.succeeded == len(wire.sent) == pytest.approx(60, abs=2)
    assert result.reasons == {"too late to begin": result.unsent}
    assert result.availability_percent == pytest.approx(15, abs=0.5)
    assert result.seconds == pytest.approx(6, abs=0.3)


def test_an_open_loop_sends_at_its_rate_and_times() -> None:
    result, wire = run_load(make_plan(in_flight=4), answer_quickly)
    assert [at - BEGIN for at, *_ in wire.sent] == pytest.approx([number / 100 for number in range(400)], abs=1e-6)
    assert result.operations_per_s == pytest.approx(100, rel=0.01)
    assert result.latencies().percentile_ms(50) == pytest.approx(1, rel=0.01)


def test_requests_under_way_are_bounded() -> None:
    def slow(begun: float, address: str, request: bytes) -> tuple[float, int, bytes, str]:
        return 0.05, 200, SENT, ""

    result, wire = run_load(make_plan(seconds=1.0, clients=3, in_flight=2), slow)
    assert result.succeeded == 100
    assert wire.under_way_max == 6
    assert result.seconds == pytest.approx(5.0, rel=0.02), "it ends when all that was offered has"


@pytest.mark.parametrize("mode", list(LoadMode))
def test_failures_count_with_their_reason(mode: LoadMode) -> None:
    answers = [(200, SENT), (503, b'{"error_code":50302,"outcome":"failed"}'), (LOST, b""), (NEVER_SENT, b"")]
    answers += [(504, b'{"error_code":50401,"outcome":"unknown"}'), (200, b'{"offsets":[{"error_code":50302}]}')]
    turn = iter(range(1_000_000))

    def mixed(begun: float, address: str, request: bytes) -> tuple[float, int, bytes, str]:
        return 0.001, *answers[next(turn) % len(answers)], ""

    result, _ = run_load(make_plan(mode, seconds=6.0), mixed)
    share = result.offered / len(answers)
    assert result.succeeded == pytest.approx(share, abs=1)
    assert result.availability_percent == pytest.approx(100 / 6, abs=1)
    found = result.as_json()
    assert found["unknown"] == pytest.approx(2 * share, abs=2), "a lost answer, and one that says so"
    assert found["failed"] == pytest.approx(3 * share, abs=3)
    assert set(result.reasons) == {
        "send: HTTP 503, code 50302",
        "send: no answer",
        "send: no connection",
        "send: HTTP 504, code 50401",
        "send: HTTP 200, code 50302",
    }


def test_a_closed_loop_does_not_spin_without_a_listener() -> None:
    def away(begun: float, address: str, request: bytes) -> tuple[float, int, bytes, str]:
        return 0.0, NEVER_SENT, b"", ""

    result, wire = run_load(make_plan(LoadMode.CLOSED, seconds=1.0), away)
    assert result.succeeded == 0
    assert len(wire.sent) <= 2 * 21


def test_a_smart_client_follows_the_leader_that_answers_name() -> None:
    def led_by_c(begun: float, address: str, request: bytes) -> tuple[float, int, bytes, str]:
        return 0.001, 200, SENT, "" if address == "c:3" else "c:3"

    _, wire = run_load(make_plan(seconds=1.0), led_by_c)
    addresses = [address for _, _, address, _ in wire.sent]
    assert addresses[0] == "b:2", "as the topic was described"
    assert Counter(addresses[1:]) == {"c:3": 99}


def test_a_smart_client_sends_to_another_broker_when_the_leader_is_down() -> None:
    def without_b(begun: float, address: str, request: bytes) -> tuple[float, int, bytes, str]:
        return (0.001, LOST, b"", "") if address == "b:2" else (0.001, 200, SENT, "")

    result, wire = run_load(make_plan(seconds=1.0), without_b)
    assert result.succeeded == 99
    assert wire.sent[1][2] != "b:2"


def test_requests_to_any_node_are_sent_round_robin() -> None:
    result, wire = run_load(make_plan(targeting=Targeting.ANY, seconds=3.0), answer_quickly)
    assert Counter(address for _, _, address, _ in wire.sent) == {"a:1": 100, "b:2": 100, "c:3": 100}
    assert result.succeeded == 300


def test_polls_advance_and_commits_carry_the_position() -> None:
    """Polls, commits and lists have the offsets that the client reached."""
    offset = iter(range(0, 1_000_000, 3))

    def scripted(begun: float, address: str, request: bytes) -> tuple[float, int, bytes, str]:
        if b"/records?" in request:
            begin = int(request.split(b"offset=")[1].split(b"&")[0])
            return 0.001, 200, f'[{{"offset":{begin}}},{{"offset":{begin + 2}}}]'.encode(), ""
        return 0.001, 200, SENT, ""

    _, wire = run_load(make_plan(mix=Mix.parse("poll,commit,list=0.5"), clients=1, seconds=2.0), scripted)
    expected = 0
    for _, _, _, request in wire.sent:
        if b"/records?" in request:
            assert b"/topics/t/partitions/0/records?offset=%d&timeout=0" % expected in request
            expected = next(offset) + 3
        elif request.startswith(b"POST"):
            assert request.startswith(b"POST /groups/t-0/offsets?")
            assert b'"partition":0,"offset":%d}' % expected in request
        else:
            assert request.startswith(b"GET /groups/t-0/offsets?")
    assert expected > 100


def test_values_differ_and_have_their_size() -> None:
    _, wire = run_load(make_plan(value_bytes=40), answer_quickly)
    values = {request.split(b'"value":"')[1].split(b'"')[0] for *_, request in wire.sent}
    assert len(values) == 400
    assert {len(value) for value in values} == {40}


def test_a_mix_sets_the_shares_of_operations() -> None:
    plan = make_plan(LoadMode.CLOSED, mix=Mix.parse("send=3,list=1,poll=0"), seconds=5.0)
    result, _ = run_load(plan, answer_quickly)
    assert set(result.tallies) == {"send", "list"}
    assert result.tallies["send"].offered / result.offered == pytest.approx(0.75, abs=0.03)
    for wrong in ("", "seen=1", "send=x", "send=-1", "send=0", "send=inf"):
        with pytest.raises(InvalidArgument):
            Mix.parse(wrong)


@pytest.mark.parametrize("wrong", [{"rate": 0}, {"seconds": -1.0}, {"clients": 0}, {"clients": 100, "in_flight": 100}])
def test_invalid_plans_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidArgument):
        make_plan(**wrong)
