"""`raftlog bench` on brokers that it starts, and on a running broker."""

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import orjson

from raftlog.testing import BrokerProcess
from tests.cli.conftest import Run

SHORT = ("--seconds", "0.4", "--warm-seconds", "0.1")


def test_bench_starts_a_broker_of_its_own(run: Run, tmp_path: Path) -> None:
    plot = tmp_path / "latencies.svg"
    done = run("bench", "--local", "1", *SHORT, "--rate", "250", "--json", "--plot", str(plot))
    found = orjson.loads(done.stdout)
    assert (found["offered"], found["mode"], found["rate"]) == (100, "open", 250)
    assert found["availability_percent"] == 100
    assert set(found["operations"]) == {"send", "poll", "commit", "list"}
    assert 0 < found["latency_ms"]["p50"] <= found["latency_ms"]["p99"] <= found["latency_ms"]["max"]
    assert found["between_brokers"]["messages_per_operation"] == 0, "a broker alone sends no messages"
    assert plot.read_text().startswith("<?xml")


def test_bench_leaves_the_topics_of_a_running_broker_unchanged(run: Run, broker: BrokerProcess, topic: str) -> None:
    at = ("--bootstrap", broker.address)
    done = run("bench", *at, *SHORT, "--mode", "closed", "--in-flight", "2", "--mix", "send,poll=0.5", "--to", "any")
    assert done.stderr.startswith(b"load for ")
    assert b"operations/s" in done.stdout
    assert b"availability 100.000 %" in done.stdout
    listed = orjson.loads(run("topic", "list", "--json", *at).stdout)
    assert [row["name"] for row in listed] == [topic], "its own topic is deleted"
    run("bench", *at, *SHORT, "--mix", "send", "--records", "10", "--topic", topic, "--rate", "50")
    described = orjson.loads(run("topic", "describe", topic, "--json", *at).stdout)
    records = described["partitions"][0]["high_watermark"]
    assert records == 10 * (20 + 5), "those of the warm-up are there too"


def test_ctrl_c_ends_the_bench_at_once_and_deletes_its_topic(
    run: Run, own_broker: BrokerProcess, spawn: Callable[..., "subprocess.Popen[bytes]"]
) -> None:
    at = ("--bootstrap", own_broker.address)
    process = spawn("bench", *at, "--seconds", "600", "--rate", "100")
    while b"bench-" not in run("group", "list", *at).stdout:  # the load has begun
        assert process.poll() is None, "it ended by itself"
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 1
    assert run("topic", "list", *at).stdout == b""


def test_impossible_options_are_refused(run: Run) -> None:
    assert b"'shout=1' is not KIND=WEIGHT" in run("bench", "--mix", "shout=1", expect=2).stderr
    assert b"leave out --topic" in run("bench", "--local", "1", "--topic", "t", expect=2).stderr
    too_many = run("bench", "--clients", "1000", "--in-flight", "1000", expect=2)
    assert b"1000 clients with 1000 operations in flight each are too many" in too_many.stderr
    assert b"no broker answers" in run("bench", "--bootstrap", "127.0.0.1:1", expect=1).stderr
