"""`produce --resume`: after any crash the topic has every line exactly once, in order."""

import hashlib
import json
import random
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from raftlog.testing import BrokerProcess

Spawn = Callable[..., "subprocess.Popen[bytes]"]
LINES = 9_000


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file of lines with repeated keys, without keys, empty and doubled, which could confuse a comparison."""
    choose = random.Random(7)
    path = tmp_path_factory.mktemp("source") / "lines"
    with path.open("wb") as file:
        for number in range(LINES):
            kind = choose.random()
            if kind < 0.1:
                file.write(b"\n")
            elif kind < 0.2:
                file.write(b"the same again\n")
            else:
                file.write(b"key%d: value %d %s\n" % (choose.randrange(500), number, b"x" * choose.randrange(60)))
    return path


def hash_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def sum_end_offsets(run: Any, topic: str, at: tuple[str, ...]) -> int:
    rows = json.loads(run("topic", "describe", topic, "--json", *at).stdout)["partitions"]
    return sum(row["end_offset"] for row in rows)


def produce_command(topic: str, source: Path, state: Path, at: tuple[str, ...], *more: str) -> tuple[str, ...]:
    return ("produce", topic, str(source), "--resume", str(state), *at, *more)


SLOWLY = ("--batch-bytes", "200")
"""Some thousand requests, so that a kill comes in the middle. How lines are batched may change between runs."""


def start_and_wait(
    spawn: Spawn, command: tuple[str, ...], topic: str, at: tuple[str, ...], more_than: int
) -> "subprocess.Popen[bytes]":
    """Start a producer and wait until it has stored more than this many records and still runs."""
    reader = spawn("consume", topic, "--count", str(more_than), *at, stdout=subprocess.DEVNULL)
    producer = spawn(*command, *SLOWLY)
    assert reader.wait(60) == 0
    assert producer.poll() is None, "the producer was too fast to be interrupted"
    return producer


@pytest.mark.parametrize("kills", [1, 4])
def test_a_killed_producer_resumes(
    spawn: Spawn, run: Any, broker: BrokerProcess, source: Path, tmp_path: Path, kills: int
) -> None:
    at = ("--bootstrap", broker.address)
    topic, state = f"killed-{kills}", tmp_path / "state"
    run("topic", "create", topic, *at)
    command = produce_command(topic, source, state, at, "--key-separator", ": ")
    for number in range(1, kills + 1):
        producer = start_and_wait(spawn, command, topic, at, number * LINES // 20)
        producer.kill()
        producer.wait()
    before = sum_end_offsets(run, topic, at)
    summary = json.loads(run(*command, "--json").stdout)
    assert LINES > summary["already_stored"] >= before > LINES // 20
    assert summary["already_stored"] + summary["records"] == LINES
    printed = run("consume", topic, "--key-separator", ": ", "--no-follow", *at).stdout
    assert hash_of(printed) == hash_of(source.read_bytes())
    again = json.loads(run(*command, "--json").stdout)
    assert (again["records"], again["already_stored"]) == (0, LINES)


def test_a_killed_producer_resumes_over_many_partitions(
    spawn: Spawn, run: Any, broker: BrokerProcess, source: Path, tmp_path: Path
) -> None:
    at = ("--bootstrap", broker.address)
    run("topic", "create", "spread", "-p", "5", *at)
    run("topic", "create", "spread-at-once", "-p", "5", *at)
    command = produce_command("spread", source, tmp_path / "state", at, "--key-separator", ": ")
    producer = start_and_wait(spawn, command, "spread", at, LINES // 10)
    producer.kill()
    producer.wait()
    run(*command)
    run("produce", "spread-at-once", str(source), "--key-separator", ": ", *at)
    for partition in range(5):
        flags = ("-p", str(partition), "--key-separator", ": ", "--no-follow", *at)
        assert run("consume", "spread", *flags).stdout == run("consume", "spread-at-once", *flags).stdout


def test_a_running_producer_continues_after_the_broker_is_killed(
    spawn: Spawn, run: Any, own_broker: BrokerProcess, source: Path, tmp_path: Path
) -> None:
    """The producer continues as soon as the broker has restarted."""
    at = ("--bootstrap", own_broker.address)
    run("topic", "create", "t", "-p", "2", *at)
    run("topic", "create", "at-once", "-p", "2", *at)
    command = produce_command("t", source, tmp_path / "state", at, "--key-separator", ": ", "--timeout-ms", "2000")
    producer = start_and_wait(spawn, command, "t", at, LINES // 20)
    own_broker.kill()
    own_broker.start()
    for number in (2, 3):
        run("consume", "t", "--count", str(number * LINES // 20), *at)
        assert producer.poll() is None, "the producer was too fast to be interrupted"
        own_broker.kill()
        own_broker.start()
    assert producer.wait(60) == 0, producer.communicate()[1].decode()
    run("produce", "at-once", str(source), "--key-separator", ": ", *at)
    for partition in ("0", "1"):
        flags = ("-p", partition, "--key-separator", ": ", "--no-follow", *at)
        assert run("consume", "t", *flags).stdout == run("consume", "at-once", *flags).stdout


def test_producing_resumes_after_broker_and_producer_are_killed(
    spawn: Spawn, run: Any, own_broker: BrokerProcess, source: Path, tmp_path: Path
) -> None:
    at = ("--bootstrap", own_broker.address)
    run("topic", "create", "t", *at)
    command = produce_command("t", source, tmp_path / "state", at)
    producer = start_and_wait(spawn, command, "t", at, LINES // 10)
    own_broker.kill()
    producer.kill()
    producer.wait()
    own_broker.start()
    run(*command)
    assert hash_of(run("consume", "t", "--no-follow", *at).stdout) == hash_of(source.read_bytes())


def test_producing_resumes_after_a_long_outage(
    spawn: Spawn, run: Any, own_broker: BrokerProcess, source: Path, tmp_path: Path
) -> None:
    at = ("--bootstrap", own_broker.address)
    run("topic", "create", "t", *at)
    command = produce_command("t", source, tmp_path / "state", at)
    producer = start_and_wait(spawn, (*command, "--give-up-after", "0.5", "--timeout-ms", "1000"), "t", at, LINES // 20)
    own_broker.kill()
    code = producer.wait(30)
    assert producer.stderr is not None
    words = producer.stderr.read().decode()
    assert code in (1, 3), words
    assert "records are confirmed" in words
    own_broker.start()
    run(*command)
    assert hash_of(run("consume", "t", "--no-follow", *at).stdout) == hash_of(source.read_bytes())


@pytest.fixture
def half_done(
    spawn: Spawn, run: Any, broker: BrokerProcess, source: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> tuple[str, Path, tuple[str, ...]]:
    """Kill a producer before its end; return topic, state file and address."""
    at = ("--bootstrap", broker.address)
    topic = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    state = tmp_path / "state"
    run("topic", "create", topic, *at)
    producer = start_and_wait(spawn, produce_command(topic, source, state, at), topic, at, LINES // 20)
    producer.kill()
    producer.wait()
    broker.kill()  # with it goes what the producer had sent and the broker not yet taken
    broker.start()
    return topic, state, at


def run_refused(run: Any, half_done: tuple[str, Path, tuple[str, ...]], *command: str) -> str:
    """Run a command that must fail without writing; return its error output."""
    topic, _, at = half_done
    before = sum_end_offsets(run, topic, at)
    words: str = run(*command, expect=1).stderr.decode()
    assert sum_end_offsets(run, topic, at) == before
    return words


def test_resume_refuses_a_topic_with_records_of_another_producer(
    run: Any, half_done: tuple[str, Path, tuple[str, ...]], source: Path
) -> None:
    topic, state, at = half_done
    run("produce", topic, *at, stdin=b"a stranger's record\n")
    words = run_refused(run, half_done, *produce_command(topic, source, state, at))
    assert "another producer wrote to the topic" in words


def test_resume_refuses_a_topic_with_more_records_than_the_source(
    run: Any, half_done: tuple[str, Path, tuple[str, ...]], source: Path
) -> None:
    topic, state, at = half_done
    run(*produce_command(topic, source, state, at))
    run("produce", topic, *at, stdin=b"\n")
    assert "more records than the source" in run_refused(run, half_done, *produce_command(topic, source, state, at))


def test_resume_refuses_another_source(
    run: Any, half_done: tuple[str, Path, tuple[str, ...]], source: Path, tmp_path: Path
) -> None:
    topic, state, at = half_done
    other = tmp_path / "other"
    other.write_bytes(source.read_bytes()[:-1])
    assert "another source" in run_refused(run, half_done, *produce_command(topic, other, state, at))


def test_resume_refuses_other_options(run: Any, half_done: tuple[str, Path, tuple[str, ...]], source: Path) -> None:
    topic, state, at = half_done
    assert "key-separator" in run_refused(
        run, half_done, *produce_command(topic, source, state, at, "--key-separator", ":")
    )
    assert "partition" in run_refused(run, half_done, *produce_command(topic, source, state, at, "-p", "0"))


def test_resume_refuses_another_topic(run: Any, half_done: tuple[str, Path, tuple[str, ...]], source: Path) -> None:
    topic, state, at = half_done
    run("topic", "create", f"{topic}-2", *at)
    assert "another topic" in run_refused(run, half_done, *produce_command(f"{topic}-2", source, state, at))


def test_resume_refuses_a_recreated_topic(run: Any, half_done: tuple[str, Path, tuple[str, ...]], source: Path) -> None:
    topic, state, at = half_done
    fields = json.loads(state.read_text())
    fields["base_offsets"] = [10_000_000]
    state.write_text(json.dumps(fields))
    assert "recreated or truncated" in run_refused(run, half_done, *produce_command(topic, source, state, at))


def test_resume_refuses_an_invalid_state_file(
    run: Any, half_done: tuple[str, Path, tuple[str, ...]], source: Path
) -> None:
    topic, state, at = half_done
    for content in ("", "{}", "[1]", '{"raftlog_resume": 99}'):
        state.write_text(content)
        assert "is not a state file" in run_refused(run, half_done, *produce_command(topic, source, state, at))


def test_a_second_producer_with_the_same_state_file_is_refused(
    spawn: Spawn, run: Any, broker: BrokerProcess, source: Path, tmp_path: Path
) -> None:
    at = ("--bootstrap", broker.address)
    run("topic", "create", "twins", *at)
    command = produce_command("twins", source, tmp_path / "state", at)
    first = start_and_wait(spawn, command, "twins", at, 1)
    done = run(*command, expect=None)
    assert done.returncode == 1, "the first producer must still be at work"
    assert b"in use by another raftlog produce" in done.stderr
    assert first.wait(60) == 0
    assert hash_of(run("consume", "twins", "--no-follow", *at).stdout) == hash_of(source.read_bytes())


def test_of_two_producers_that_start_at_once_one_is_refused(
    spawn: Spawn, run: Any, broker: BrokerProcess, source: Path, tmp_path: Path
) -> None:
    at = ("--bootstrap", broker.address)
    run("topic", "create", "at-once", *at)
    command = produce_command("at-once", source, tmp_path / "state", at)
    producers = [spawn(*command, *SLOWLY) for _ in range(3)]
    codes = {producer.wait(60) for producer in producers}
    assert codes <= {0, 1}, "one loads the file; the others are refused, or find it loaded when they come late"
    assert 0 in codes
    assert hash_of(run("consume", "at-once", "--no-follow", *at).stdout) == hash_of(source.read_bytes())
    assert [path.name for path in tmp_path.iterdir()] == ["state"]
