"""Merge of the histories of several processes into one in the checkers' format, and checks of single entries."""

from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jepsen.checkers import Send, check_history, read_lines
from jepsen.runner.finding import Findings
from jepsen.runner.options import RunOptions
from jepsen.runner.store import Store, merge
from jepsen.runner.strict_checker import StrictChecker
from jepsen.workloads.client.recording import HistoryWriter
from jepsen.workloads.client.values import make_payload, parse_payload, values_of
from raftlog.errors import DeadlineExceeded, Unavailable
from raftlog.types import Offset, TopicPartition

PLACE = TopicPartition("t", 0)
OPTIONS = RunOptions("log", ("kill",), 1.0, nodes=1, clients=2, rate=1.0, seed=1)


def make_line(time: int, process: int, kind: str) -> bytes:
    return orjson.dumps({"time": time, "process": process, "type": kind, "kind": "assign", "value": []}) + b"\n"


def test_parts_are_merged_by_time_and_each_keeps_its_order() -> None:
    first = [make_line(1, 1, "invoke"), make_line(5, 1, "ok"), make_line(5, 1, "invoke"), make_line(9, 1, "ok")]
    second = [make_line(2, 2, "invoke"), make_line(6, 2, "ok")]
    merged = list(merge([first, second]))
    assert [orjson.loads(each)["time"] for each in merged] == [1, 2, 5, 5, 6, 9]
    assert [each for each in merged if each in first] == first


def test_entries_at_the_same_time_are_merged_with_invocations_first() -> None:
    merged = list(
        merge([[make_line(1, 1, "invoke"), make_line(5, 1, "ok")], [make_line(5, 2, "invoke"), make_line(6, 2, "ok")]])
    )
    entries = [(orjson.loads(each)["process"], orjson.loads(each)["type"]) for each in merged]
    assert entries == [(1, "invoke"), (2, "invoke"), (1, "ok"), (2, "ok")]


def test_written_histories_can_be_checked_and_an_unfinished_line_is_ignored(tmp_path: Path) -> None:
    store = Store(tmp_path, OPTIONS)
    times = iter(range(1, 100))
    writers = [HistoryWriter(store.part_path(f"client-{number}"), lambda: next(times)) for number in (1, 2)]
    sends = [writer.invoke(number, "send", Send(PLACE, (number,)), acks="all") for number, writer in enumerate(writers)]
    writers[0].ok(sends[0], Send(PLACE, (0,), (Offset(0),)), leader_epoch=7)
    writers[1].record_refusal(sends[1], DeadlineExceeded("no answer"))
    writers[1].record_refusal(writers[1].invoke(1, "send", Send(PLACE, (2,))), Unavailable("nobody leads"))
    writers[0].nemesis("kill node 1", nodes=[1])
    with open(store.part_path("client-2"), "ab") as torn:
        torn.write(b'{"time": 50, "proc')
    for writer in writers:
        writer.close()
    store.merge_history()
    lines = store.history.read_bytes().splitlines()
    assert orjson.loads(lines[2])["leader_epoch"] == 7
    ops = list(read_lines(lines))
    assert [(op.type, op.error) for op in ops if op.type in ("fail", "info")] == [
        ("info", "DeadlineExceeded: no answer"),
        ("fail", "Unavailable: nobody leads"),
        ("info", ""),
    ]
    assert check_history(ops).counts == {"unseen": 1}
    assert not store.parts.exists()


def test_two_runs_in_one_second_get_two_folders(tmp_path: Path) -> None:
    assert Store(tmp_path, OPTIONS).path != Store(tmp_path, OPTIONS).path


@pytest.mark.parametrize("size", [0, 1, 2, 3, 10, 1000])
def test_a_payload_repeats_its_value_in_every_byte(size: int) -> None:
    payload = make_payload(1234, size)
    assert parse_payload(payload) == 1234
    for position in range(len(payload)):
        damaged = payload[:position] + bytes([payload[position] ^ 1]) + payload[position + 1 :]
        assert parse_payload(damaged) != 1234
    assert isinstance(parse_payload(None), str)
    assert isinstance(parse_payload(b""), str)


def test_two_clients_send_distinct_values() -> None:
    assert values_of(1)[-1] < values_of(2)[0]


def check_strictly(*entries: dict[str, object], faults: tuple[str, ...] = ()) -> dict[str, int]:
    findings = Findings()
    check_file = StrictChecker(findings, faults)
    for entry in entries:
        check_file.feed(orjson.dumps(entry), {"type": "ok", **entry})
    return findings.counts


def trim_entry(type_: str, start: int, process: int = 1, partition: str = "t/0") -> dict[str, object]:
    return {"kind": "trim", "type": type_, "process": process, "value": [partition, start]}


def out_of_range_entry(offset: int, kind: str = "poll") -> dict[str, object]:
    error = f"OffsetOutOfRange: offset {offset} is out of range"
    return {"kind": kind, "type": "fail", "error": error, "partition": "t/0", "offset": offset}


def list_entry(start: int) -> dict[str, object]:
    return {"kind": "list", "value": {"ranges": [["t/0", start, 99]], "linearizable": True}}


def test_a_poll_may_be_refused_only_below_a_requested_deletion() -> None:
    for told in (
        (),
        (trim_entry("ok", 7),),
        (trim_entry("info", 7),),
        ({"kind": "crash", "type": "info", "process": 1},),
    ):
        assert check_strictly(trim_entry("invoke", 7), *told, out_of_range_entry(6), list_entry(7)) == {}
        assert check_strictly(trim_entry("invoke", 7), *told, out_of_range_entry(7)) == {"wrong-refusal": 1}
        failed = (trim_entry("invoke", 9, 2), trim_entry("fail", 9, 2))
        assert check_strictly(trim_entry("invoke", 7), *told, *failed, out_of_range_entry(6)) == {}
        assert check_strictly(trim_entry("invoke", 7), *told, *failed, out_of_range_entry(8)) == {"wrong-refusal": 1}
    assert check_strictly(out_of_range_entry(6), trim_entry("invoke", 7)) == {"wrong-refusal": 1}, (
        "no client had asked yet"
    )
    assert check_strictly(trim_entry("invoke", 7), trim_entry("fail", 7), out_of_range_entry(6)) == {"wrong-refusal": 1}
    assert check_strictly(trim_entry("invoke", 7, partition="t/1"), out_of_range_entry(6)) == {"wrong-refusal": 1}
    assert check_strictly(trim_entry("invoke", 7), out_of_range_entry(6, "trim") | trim_entry("fail", 7)) == {
        "wrong-refusal": 1
    }


def test_a_log_starts_no_later_than_requested() -> None:
    assert (
        check_strictly(
            list_entry(0),
            trim_entry("invoke", 7),
            list_entry(7),
            trim_entry("invoke", 9, 2),
            trim_entry("ok", 9),
            list_entry(9),
        )
        == {}
    )
    assert check_strictly(list_entry(1)) == {"wrong-start": 1}
    assert check_strictly(trim_entry("invoke", 7), trim_entry("info", 7), list_entry(8)) == {"wrong-start": 1}
    assert check_strictly(trim_entry("invoke", 7), trim_entry("ok", 8)) == {"wrong-start": 1}
    assert check_strictly(trim_entry("invoke", 7), trim_entry("fail", 7), list_entry(7)) == {"wrong-start": 1}


def send_entry(offset: int, epoch: int) -> dict[str, object]:
    return {"kind": "send", "value": {"partition": "t/0", "offsets": [offset]}, "leader_epoch": epoch}


def poll_entry(*epochs: tuple[int, int]) -> dict[str, object]:
    return {"kind": "poll", "value": [{"partition": "t/0"}], "leader_epochs": epochs}


def test_leader_epochs_rise_with_offsets_and_are_equal_on_all_replicas() -> None:
    assert check_strictly(send_entry(0, 1), send_entry(1, 1), poll_entry((0, 1), (2, 4)), send_entry(3, 4)) == {}
    assert check_strictly(send_entry(5, 2), poll_entry((5, 3))) == {"leader-epoch": 1}
    assert check_strictly(send_entry(5, 2), poll_entry((6, 1))) == {"leader-epoch": 1}
    assert check_strictly(send_entry(5, 2), poll_entry((4, 3), (4, 3)), send_entry(6, 2), poll_entry((5, 1))) == {
        "leader-epoch": 2
    }, "each once"
    assert check_strictly(poll_entry((0, 1), (9, 9)), poll_entry((5, 4), (7, 6)), poll_entry((6, 7))) == {
        "leader-epoch": 1
    }


@given(claims=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=6))
def test_leader_epochs_of_polls_are_checked_against_each_other(claims: list[tuple[int, int]]) -> None:
    contradict = any(
        (offset == other and epoch != later) or (offset < other and epoch > later)
        for offset, epoch in claims
        for other, later in claims
    )
    assert bool(check_strictly(*(poll_entry(claim) for claim in claims))) == contradict


@pytest.mark.parametrize("error", ["Unavailable: no leader", "NotListening: x", "DeadlineExceeded: x", "50401: late"])
def test_faults_explain_some_errors(error: str) -> None:
    assert check_strictly({"type": "fail", "kind": "send", "error": error}) == {}


def test_a_full_disk_explains_errors_that_no_other_fault_does() -> None:
    refused = {"type": "fail", "kind": "send", "error": "50701: no space left"}
    assert check_strictly(refused, faults=("kill", "full")) == {}
    assert check_strictly(refused, faults=("kill", "damage")) == {"wrong-refusal": 1}


@pytest.mark.parametrize(
    "error", ["OffsetOutOfRange: 7", "UnknownTopic: t", "InvalidBatch: CRC", "StorageError: 500", "40402: no partition"]
)
def test_unexplained_errors_are_reported(error: str) -> None:
    assert check_strictly({"type": "fail", "kind": "poll", "error": error}) == {"wrong-refusal": 1}
