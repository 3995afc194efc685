"""Workloads on logs in memory: correct logs pass, each targeted bug is detected; and clients that are killed."""

import asyncio
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import orjson
import pytest

from jepsen.checkers import Assign, Send, Trim, check_history, read_lines
from jepsen.runner.command import run
from jepsen.runner.load import Load
from jepsen.runner.options import RunOptions
from jepsen.runner.store import Store
from jepsen.workloads.client.access import Access
from jepsen.workloads.client.configuration import Period
from jepsen.workloads.client.numbering import PER_CLIENT
from jepsen.workloads.client.recording import MERGED_CLOCK, HistoryWriter
from jepsen.workloads.client.values import make_payload
from jepsen.workloads.drain import Drain
from jepsen.workloads.incarnations import resolve_incarnations
from jepsen.workloads.plan import Plan
from jepsen.workloads.roles.plain_producer import send_batch
from jepsen.workloads.roles.reader import Reader
from raftlog.client import BrokerClient
from raftlog.records import build_batch
from raftlog.types import Offset, TopicPartition
from tests.jepsen.fake_log import FakeLog
from tests.waiting import block_until

SECONDS = 3.0
PLACE = TopicPartition("t", 0)
RUNS = {
    ("register", None): set(),
    ("register", "tells an old end"): {"not-linearizable", "stale-end"},
    ("topics", None): set(),
    ("topics", "keeps what was deleted"): {"resurrected-topic"},
    ("topics", "deletes another one as well"): {"lost-topic"},
    ("trimming", None): set(),
    ("trimming", "brings back what was deleted"): {"trim-undone"},
    ("trimming", "answers and deletes nothing"): {"trim-undone"},
    ("trimming", "deletes more than was asked"): {"wrong-start"},
}
"""Workload, what is wrong with the log, and what has to be found."""
AT_ONCE = 5
"""Runs that share the machine: more of them leave too few operations for each in its time."""


def run_workload(workload: str, bug: str | None, directory: Path) -> dict[str, Any]:
    options = RunOptions(workload, (), SECONDS, nodes=2, clients=1, rate=200.0, seed=5, recovery_s=1.5)
    return run(options, FakeLog(bug), Store(directory, options), lambda *_told: None)


@pytest.mark.slow
def test_bugs_that_workloads_target_are_detected(tmp_path: Path) -> None:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        results = dict(zip(RUNS, pool.map(lambda each: run_workload(*each, tmp_path / f"{each}"), RUNS), strict=True))
    for case, expected in RUNS.items():
        found = results[case]["anomalies"]
        assert expected <= set(found), (case, found)
        assert expected or not found, (case, results[case]["findings"])
    outcomes = results["register", None]["outcomes"]
    assert min(outcomes["write"]["ok"], outcomes["read"]["ok"]) > 50
    assert results["topics", None]["outcomes"]["topic"]["ok"] > 20
    assert results["trimming", None]["outcomes"]["trim"]["ok"] > 0


@pytest.mark.parametrize("bug", [None, "skips what was deleted"])
def test_a_refused_reader_continues_at_the_log_start_and_a_drain_begins_there(tmp_path: Path, bug: str | None) -> None:
    log = FakeLog(bug)
    log.start()
    times = iter(range(1_000_000))
    history = HistoryWriter(tmp_path / "history", lambda: next(times))
    try:
        ends = asyncio.run(read_after_trim(log, history))
    finally:
        history.close()
        log.close()
    ops = list(read_lines((tmp_path / "history").read_bytes().splitlines()))
    assigned = [op.payload.positions for op in ops if op.type == "ok" and isinstance(op.payload, Assign)]
    if bug is None:
        assert assigned == [((PLACE, 0),), ((PLACE, 7),), *[((PLACE, 8),)] * len(log.addresses)]
    assert ends == {PLACE: 10 + len(log.addresses)}
    assert check_history(ops).counts == ({} if bug is None else {"poll-skip": 1})


async def read_after_trim(log: FakeLog, history: HistoryWriter) -> dict[TopicPartition, int]:
    """Produce ten records, delete seven of them and add one; return the log starts after reading the rest."""
    async with BrokerClient(list(log.addresses.values())) as client:
        await client.create_topic(PLACE.topic, 1)
    async with Access(log.addresses) as access:
        values = tuple(range(10))
        body = build_batch([make_payload(value, 10) for value in values])
        await send_batch(access, history, 1, 1, Send(PLACE, values), body, "all", 1000)
        trim = history.invoke(2, "trim", Trim(PLACE, Offset(7)))
        history.ok(trim, Trim(PLACE, Offset(await access.trim(1, PLACE, 7, 1000))))
        reader = Reader(access, history, 3, {PLACE: 0}, Random(1))
        while reader.positions[PLACE] < 10:
            await reader.poll(1, PLACE, 0)
        trim = history.invoke(2, "trim", Trim(PLACE, Offset(8)))
        history.ok(trim, Trim(PLACE, Offset(await access.trim(1, PLACE, 8, 1000))))
        return (await Drain(access, history, [PLACE], 7, 5.0).run()).ends


def make_line(kind: str, value: dict[str, Any] | list[Any], type_: str = "ok", **more: Any) -> bytes:
    return orjson.dumps(
        {"time": 1, "process": 1, "type": type_, "kind": kind, "value": value, **more}, option=orjson.OPT_APPEND_NEWLINE
    )


@pytest.mark.parametrize(
    ("answer", "shown", "home"),
    [
        ({"type_": "ok", "topic_id": "b"}, None, "t@b/0"),
        ({"type_": "ok", "topic_id": "b"}, "t@c/0", "t@b/0"),  # the judges say what is wrong with that
        ({"type_": "info"}, "t@c/0", "t@c/0"),
        ({"type_": "info"}, None, "t@a/0"),
    ],
)
def test_a_send_belongs_to_the_partition_that_answered_or_showed_it(
    answer: dict[str, Any], shown: str | None, home: str
) -> None:
    send = {"partition": "t@a/0", "values": [7, 8], "offsets": []}
    lines = [make_line("send", send, "invoke"), make_line("send", send, **answer), make_line("list", {"ranges": []})]
    if shown is not None:
        lines.append(make_line("poll", [{"partition": shown, "offsets": [3, 4], "values": [7, 8]}]))
    put_right = list(resolve_incarnations(reversed(lines), lines))
    assert [orjson.loads(each)["value"]["partition"] for each in put_right[:2]] == [home, home]
    assert put_right[2:] == lines[2:]


def test_a_killed_client_leaves_its_operations_open_and_another_one_continues(tmp_path: Path) -> None:
    options = RunOptions("plain", (), SECONDS, nodes=2, clients=1, rate=200.0, seed=5)
    store, log = Store(tmp_path, options), FakeLog()
    log.start()
    asyncio.run(create_topics(list(log.addresses.values()), options.plan))
    begin_ns = MERGED_CLOCK()
    load = Load(options, log.addresses, store, begin_ns)
    try:
        load.wait_ready()
        load.begin(Period(begin_ns, MERGED_CLOCK() + 60 * 10**9))
        wait_for_ok(load, 20)
        proof = load.crash(1)
        before = load.read_output()["ok"]
        wait_for_ok(load, before + 20)
        load.end()
        total = load.wait()
    finally:
        load.close()
        log.close()
    assert "ended with -9" in proof
    store.merge_history()
    with open(store.history, "rb") as lines:
        ops = list(read_lines(lines))
    acknowledged = [op for op in ops if op.kind == "send" and op.type == "ok"]
    assert {op.process // PER_CLIENT for op in acknowledged} == {1, 3}
    assert len(acknowledged) >= total["ok"], "what the killed one did is not forgotten"


REPORTS_AT_THE_END = "print('ready', flush=True); open(0).read(); print('{}', flush=True)"


def test_figures_at_the_end_of_an_interrupted_run_leave_no_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client may print a line of figures before it notices that its stdin is closed; a traceback is a finding."""
    options = RunOptions("plain", (), SECONDS, nodes=1, clients=1, rate=1.0, seed=1)
    store, start = Store(tmp_path, options), subprocess.Popen
    monkeypatch.setattr(
        subprocess, "Popen", lambda _words, **more: start([sys.executable, "-c", REPORTS_AT_THE_END], **more)
    )
    load = Load(options, {1: "127.0.0.1:1"}, store, 0)
    load.wait_ready()
    load.close()
    assert (store.logs / "client-1.log").read_text() == ""


async def create_topics(addresses: list[str], plan: Plan) -> None:
    async with BrokerClient(addresses) as client:
        for topic, partitions in plan.partitions.items():
            await client.create_topic(topic, partitions)


def wait_for_ok(load: Load, count: int) -> None:
    block_until(lambda: load.read_output().get("ok", 0) >= count, load.read_output)
