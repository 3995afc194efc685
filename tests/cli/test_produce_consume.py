"""`produce` and `consume` as real processes with a real broker."""

import asyncio
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from raftlog.cli.consume.verb import QuietNotice
from raftlog.client import BrokerClient, Producer, TransactionalProducer
from raftlog.records import Compression, build_columns
from raftlog.testing import BrokerProcess
from raftlog.types import Offset
from tests.undecodable import SMALL

Spawn = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def at(broker: BrokerProcess) -> tuple[str, str]:
    return ("--bootstrap", broker.address)


def test_lines_are_consumed_in_order(run: Any, topic: str, at: tuple[str, str]) -> None:
    lines = b"".join(b"line %d\n" % number for number in range(5000)) + b"\n\xff\x00\nlast without newline"
    done = run("produce", topic, "--json", "--batch-bytes", "2000", *at, stdin=lines)
    summary = json.loads(done.stdout)
    assert (summary["outcome"], summary["records"], summary["unconfirmed"]) == ("done", 5003, 0)
    assert summary["partitions"] == [{"partition": 0, "base_offset": 0, "next_offset": 5003, "records": 5003}]
    assert done.stderr.startswith(b"5,003 records, ")
    assert run("consume", topic, "--no-follow", *at).stdout == lines + b"\n"


@pytest.mark.parametrize("separator", [":", "\\t", "=>"])
def test_keys_are_consumed_with_their_separator(run: Any, topic: str, at: tuple[str, str], separator: str) -> None:
    cut = separator.replace("\\t", "\t").encode()
    lines = [
        b"a" + cut + b"1",
        b"no key",
        cut + b"empty key",
        b"empty value" + cut,
        b"",
        b"a" + cut + b"2" + cut + b"3",
    ]
    content = b"\n".join(lines) + b"\n"
    run("produce", topic, "--key-separator", separator, *at, stdin=content)
    assert run("consume", topic, "--key-separator", separator, "--no-follow", *at).stdout == content
    assert run("consume", topic, "-f", "%k|", "-n", "2", *at).stdout == b"a||"


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_records_are_consumed(run: Any, topic: str, at: tuple[str, str], codec: str) -> None:
    content = b"the same line again\n" * 500
    run("produce", topic, "-z", codec, *at, stdin=content)
    assert run("consume", topic, "--no-follow", *at).stdout == content


def test_json_lines_are_consumed_as_produced(run: Any, topic: str, at: tuple[str, str]) -> None:
    rows = [
        {"key": "k", "value": "v", "timestamp": 1000, "headers": [{"name": "h", "value": "AQ=="}]},
        {"key": None, "value": "gIE=", "encoding": {"value": "base64"}, "timestamp": 2000},
        {"key": "x", "value": None, "timestamp": 3000},
    ]
    content = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    run("produce", topic, "--json-lines", *at, stdin=content)
    printed = run("consume", topic, "--json", "--no-follow", *at).stdout
    shown = [json.loads(line) for line in printed.splitlines()]
    for offset, (row, found) in enumerate(zip(rows, shown, strict=True)):
        assert found == {"topic": topic, "partition": 0, "offset": offset, **row}
    run("produce", topic, "--json-lines", *at, stdin=printed)
    again = run("consume", topic, "--json", "--from", "3", "--no-follow", *at).stdout.splitlines()
    assert [{**json.loads(line), "offset": 0} for line in again] == [{**row, "offset": 0} for row in shown]


def test_files_are_produced_by_line_or_whole(run: Any, topic: str, at: tuple[str, str], tmp_path: Path) -> None:
    (tmp_path / "1").write_bytes(b"a\nb\n")
    (tmp_path / "2").write_bytes(b"c")
    names = (str(tmp_path / "1"), str(tmp_path / "2"))
    run("produce", topic, *names, *at)
    run("produce", topic, "--whole-file", *names, *at)
    printed = run("consume", topic, "-f", "%o %v|", "--no-follow", *at).stdout
    assert printed == b"0 a|1 b|2 c|3 a\nb\n|4 c|"


def test_numbered_keys_are_spread_over_partitions(run: Any, at: tuple[str, str]) -> None:
    run("topic", "create", "numbered", "-p", "4", *at)
    content = b"".join(b"v%d\n" % number for number in range(1, 401))
    summary = json.loads(run("produce", "numbered", "--number-keys", "--json", *at, stdin=content).stdout)
    assert len(summary["partitions"]) == 4
    printed = run("consume", "numbered", "-f", "%k %v\\n", "--no-follow", *at).stdout.splitlines()
    assert sorted(printed) == sorted(b"%d v%d" % (number, number) for number in range(1, 401))
    one = run("consume", "numbered", "-p", "2", "-f", "%p\\n", "--no-follow", *at).stdout
    assert set(one.split()) == {b"2"}


def test_records_go_to_a_named_partition(run: Any, at: tuple[str, str]) -> None:
    run("topic", "create", "by-hand", "-p", "3", *at)
    run("produce", "by-hand", "-p", "1", *at, stdin=b"a\nb\n")
    assert run("consume", "by-hand", "-f", "%p%v ", "--no-follow", *at).stdout == b"1a 1b "
    assert b"by-hand" in run("produce", "by-hand", "-p", "3", *at, stdin=b"a\n", expect=1).stderr
    assert b"no partition 3; it has 0 to 2" in run("consume", "by-hand", "-p", "3", *at, expect=1).stderr


def test_consuming_begins_at_the_requested_position(run: Any, topic: str, at: tuple[str, str]) -> None:
    rows = b"".join(b'{"value": "%d", "timestamp": %d}\n' % (n, 1000 * n) for n in range(10))
    run("produce", topic, "--json-lines", "--batch-bytes", "1", *at, stdin=rows)

    def consume_values(begin: str) -> bytes:
        return bytes(run("consume", topic, "--from", begin, "-f", "%v", "--no-follow", *at).stdout)

    assert consume_values("start") == b"0123456789"
    assert consume_values("4") == b"456789"
    assert consume_values("-3") == b"789"
    assert consume_values("-100") == b"0123456789"
    assert consume_values("@7000") == b"789"
    assert consume_values("@1970-01-01T00:00:08Z") == b"89"
    assert consume_values("@99999") == b""
    assert consume_values("end") == b""
    assert consume_values("10") == b""
    done = run("consume", topic, "--from", "11", "--no-follow", *at, expect=1)
    assert b"offset 11 is out of range" in done.stderr


@pytest.mark.parametrize("begin", ["", "soon", "1.5", "@", "@yesterday"])
def test_invalid_positions_are_refused(run: Any, begin: str) -> None:
    assert b"--from" in run("consume", "t", "--from", begin, expect=2).stderr


def test_consuming_ends_after_count_or_timeout(run: Any, topic: str, at: tuple[str, str]) -> None:
    run("produce", topic, *at, stdin=b"a\nb\nc\n")
    assert run("consume", topic, "--from", "start", "--count", "2", *at).stdout == b"a\nb\n"
    assert run("consume", topic, "--timeout", "0.2", *at).stdout == b"a\nb\nc\n"
    done = run("consume", topic, "--count", "5", "--timeout", "0.2", *at, expect=1)
    assert done.stdout == b"a\nb\nc\n"
    assert b"only 3 of 5 records of " in done.stderr
    assert b"only 3 of 5" in run("consume", topic, "--count", "5", "--no-follow", *at, expect=1).stderr


def test_a_group_continues_after_the_printed_records(run: Any, at: tuple[str, str]) -> None:
    run("topic", "create", "shared", "-p", "2", *at)
    run("produce", "shared", *at, stdin=b"".join(b"%d\n" % number for number in range(1000)))
    first = run("consume", "shared", "-g", "readers", "-n", "300", *at).stdout.split()
    rest = run("consume", "shared", "-g", "readers", "--no-follow", *at).stdout.split()
    assert len(first) == 300
    assert sorted(map(int, [*first, *rest])) == list(range(1000))
    assert run("consume", "shared", "-g", "readers", "--no-follow", *at).stdout == b""
    assert run("consume", "shared", "-g", "late", "--from", "end", "--no-follow", *at).stdout == b""
    assert b"nowhere" in run("consume", "nowhere", "-g", "readers", *at, expect=1).stderr


def test_isolation_selects_the_records_of_transactions(run: Any, topic: str, at: tuple[str, str]) -> None:
    asyncio.run(write_transactions(at[1], topic))
    read = partial(run, "consume", topic, "--no-follow", *at)
    assert read().stdout == b"plain\ncommitted\n"
    assert read("--isolation", "read_committed").stdout == b"plain\ncommitted\n"
    everything = b"plain\naborted\ncommitted\nopen\n"
    assert read("--isolation", "read_uncommitted").stdout == everything
    assert read("--isolation", "read_uncommitted", "--group", f"all-{topic}").stdout == everything
    assert read("--from", "@0", "--isolation", "read_uncommitted").stdout == everything
    assert read("--from", "end", "--isolation", "read_uncommitted").stdout == b""
    refused = run("consume", topic, "--isolation", "serializable", *at, expect=2)
    assert b"read_committed" in refused.stderr


async def write_transactions(address: str, topic: str) -> None:
    """Write a plain record, an aborted transaction, a committed one and one that stays open."""
    async with Producer([address]) as plain:
        await plain.send_and_wait(topic, b"plain")
    async with TransactionalProducer([address], f"ended-{topic}") as producer:
        with suppress(ZeroDivisionError):
            async with producer.transaction():
                await producer.send_and_wait(topic, b"aborted")
                raise ZeroDivisionError
        async with producer.transaction():
            await producer.send(topic, b"committed")
    async with BrokerClient([address]) as client:
        committed = await client.fetch_batches(topic, 0, Offset(3), timeout_ms=10_000)
        assert committed.body, "the marker of the commit was not written"
        identity = await client.transactions.initialize(f"open-{topic}", 60_000)
        batch = build_columns(
            [b"open"],
            [None],
            [0],
            [[]],
            Compression.NONE,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            base_sequence=0,
            is_transactional=True,
        )
        await client.produce_batches(topic, 0, batch, transactional_id=f"open-{topic}")


def test_typed_lines_are_consumed_at_once(spawn: Spawn, topic: str, at: tuple[str, str]) -> None:
    reader = spawn("consume", topic, *at)
    writer = spawn("produce", topic, *at, stdin=subprocess.PIPE)
    assert writer.stdin is not None
    assert reader.stdout is not None
    for line in (b"one\n", b"two\n"):
        writer.stdin.write(line)
        writer.stdin.flush()
        assert reader.stdout.readline() == line
    writer.stdin.close()
    assert writer.wait(10) == 0
    reader.send_signal(signal.SIGINT)
    assert reader.wait(10) == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_makes_a_member_leave_its_group(
    spawn: Spawn, run: Any, topic: str, at: tuple[str, str], number: signal.Signals
) -> None:
    group = f"stopped-by-{number.name}"
    run("produce", topic, *at, stdin=b"one\n")
    reader = spawn("consume", topic, "--group", group, *at)
    assert reader.stdout is not None
    assert reader.stdout.readline() == b"one\n"
    reader.send_signal(number)
    assert reader.wait(10) == 0
    assert json.loads(run("group", "describe", group, "--json", *at).stdout)["members"] == []


def test_following_continues_after_a_broker_restart(spawn: Spawn, run: Any, own_broker: BrokerProcess) -> None:
    at = ("--bootstrap", own_broker.address)
    run("topic", "create", "t", *at)
    reader = spawn("consume", "t", *at)
    assert reader.stdout is not None
    for value in (b"before\n", b"between\n", b"after\n"):
        run("produce", "t", *at, stdin=value)
        assert reader.stdout.readline() == value
        own_broker.kill()
        own_broker.start()


def test_an_idle_tail_prints_its_position(spawn: Spawn, run: Any, topic: str, at: tuple[str, str]) -> None:
    reader = spawn("consume", topic, *at)
    assert reader.stderr is not None
    assert reader.stdout is not None
    assert reader.stderr.readline() == f"waiting for records of {topic}\n".encode()
    run("produce", topic, *at, stdin=b"one\n")
    assert reader.stdout.readline() == b"one\n"
    reader.send_signal(signal.SIGINT)
    assert reader.wait(10) == 0
    assert reader.stderr.read() == b""


def test_the_notice_of_an_idle_tail_is_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    notice = QuietNotice("waiting", 0.0)
    polls = [(0.9, False), (1.0, False), (60.9, False), (61.0, False), (70.0, True), (129.9, False), (130.0, False)]
    printed = []
    for now_s, has_records in polls:
        notice.update(now_s, has_records=has_records)
        if capsys.readouterr().err:
            printed.append(now_s)
    assert printed == [1.0, 61.0, 130.0]


def test_ctrl_c_prints_the_number_of_confirmed_records(spawn: Spawn, run: Any, topic: str, at: tuple[str, str]) -> None:
    writer = spawn("produce", topic, *at, stdin=subprocess.PIPE)
    assert writer.stdin is not None
    writer.stdin.write(b"one\n")
    writer.stdin.flush()
    assert run("consume", topic, "-n", "1", *at).stdout == b"one\n"
    writer.send_signal(signal.SIGINT)
    assert writer.wait(10) == 1
    assert writer.stderr is not None
    assert writer.stderr.read() == b"error: interrupted. 1 records are confirmed (partition 0: offsets 0 to 0).\n"


def test_a_closed_output_pipe_is_not_an_error(spawn: Spawn, run: Any, topic: str, at: tuple[str, str]) -> None:
    run("produce", topic, *at, stdin=b"a line that is long enough\n" * 100_000)
    reader = spawn("consume", topic, *at)
    assert reader.stdout is not None
    reader.stdout.readline()
    reader.stdout.close()
    assert reader.wait(10) == 0
    assert reader.stderr is not None
    assert reader.stderr.read() == b""


def test_unknown_topics_and_bad_lines_are_reported(run: Any, topic: str, at: tuple[str, str], tmp_path: Path) -> None:
    assert b"nowhere" in run("produce", "nowhere", *at, stdin=b"a\n", expect=1).stderr
    assert b"nowhere" in run("consume", "nowhere", *at, expect=1).stderr
    done = run("produce", topic, "--json-lines", "--json", *at, stdin=b'{"value": 1}\nnonsense\n', expect=1)
    assert b"line 2 is not a record" in done.stderr
    assert json.loads(done.stdout)["outcome"] == "failed"
    assert b"does not exist" in run("produce", topic, str(tmp_path / "missing"), *at, expect=2).stderr


def test_records_above_the_topics_limit_are_refused(run: Any, at: tuple[str, str]) -> None:
    run("topic", "create", "small", "-c", "max.message.bytes=2048", *at)
    content = b"".join(b"%d\n" % number for number in range(2000)) + b"\n" * 3000
    run("produce", "small", *at, stdin=content)
    assert run("consume", "small", "--no-follow", *at).stdout == content
    done = run("produce", "small", *at, stdin=b"fits\n" + b"x" * 2040 + b"\n", expect=1)
    assert b"max.message.bytes" in done.stderr
    assert b"longer than" in run("produce", "small", *at, stdin=b"x" * 5000, expect=1).stderr


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--json-lines", "--key-separator", ":"), "lines of --json-lines have their own keys"),
        (("--number-keys", "--key-separator", ":"), "--number-keys and --key-separator exclude each other"),
        (("--whole-file",), "--whole-file needs at least one FILE"),
        (("--resume", "state"), "--resume needs exactly one FILE"),
        (("--key-separator", ""), "the separator cannot be empty"),
        (("--acks", "2"), "Invalid value for '--acks'"),
        (("--compression", "rar"), "Invalid value for '--compression'"),
        (("--batch-bytes", "0"), "Invalid value for '--batch-bytes'"),
    ],
)
def test_conflicting_flags_of_produce_are_refused(run: Any, flags: tuple[str, ...], words: str) -> None:
    assert words in run("produce", "t", *flags, expect=2).stderr.decode()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--json", "-f", "%v"), "--json, --format and --key-separator exclude each other"),
        (("-f", "%z"), "%z is not a placeholder"),
        (("-n", "0"), "Invalid value for '--count'"),
        (("--timeout", "0"), "Invalid value for '--timeout'"),
        (("-g", "g", "-p", "0"), "leave out --partition"),
        (("-g", "g", "--from", "-1"), "leave out --partition, and --from unless it is start or end"),
    ],
)
def test_conflicting_flags_of_consume_are_refused(run: Any, flags: tuple[str, ...], words: str) -> None:
    assert words in run("consume", "t", *flags, expect=2).stderr.decode()


@pytest.mark.parametrize("acks", ["0", "1"])
def test_weaker_acknowledgements_are_accepted(run: Any, topic: str, at: tuple[str, str], acks: str) -> None:
    run("produce", topic, "--acks", acks, *at, stdin=b"a\nb\n")
    assert run("consume", topic, "-n", "2", *at).stdout == b"a\nb\n"


def test_an_unknown_outcome_returns_exit_code_3(
    spawn: Spawn, run: Any, own_broker: BrokerProcess, tmp_path: Path
) -> None:
    """The broker is frozen in the middle, so the request stays without an answer."""
    at = ("--bootstrap", own_broker.address)
    run("topic", "create", "t", *at)
    options = ("--timeout-ms", "100", "--give-up-after", "1")
    writer = spawn("produce", "t", *options, "--json", *at, stdin=subprocess.PIPE)
    assert writer.stdin is not None
    writer.stdin.write(b"one\n")
    writer.stdin.flush()
    assert run("consume", "t", "-n", "1", *at).stdout == b"one\n"
    os.kill(own_broker.pid, signal.SIGSTOP)
    writer.stdin.write(b"two\n")
    writer.stdin.close()
    began = time.monotonic()
    assert writer.wait(30) == 3
    assert time.monotonic() - began < 20
    assert writer.stderr is not None
    assert writer.stdout is not None
    assert b"1 records are confirmed (partition 0: offsets 0 to 0), 1 more may be" in writer.stderr.read()
    assert json.loads(writer.stdout.read())["outcome"] == "unknown"


def test_an_undecodable_batch_ends_consuming_unless_it_is_skipped(
    run: Any, topic: str, at: tuple[str, str], broker: BrokerProcess
) -> None:
    run("produce", topic, *at, stdin=b"before\n")
    sent = next(each for each in SMALL if each.name == "value of 2^63-1 bytes")
    call = Request(f"http://{broker.address}/topics/{topic}/partitions/0", data=sent.batch, method="POST")
    call.add_header("Content-Type", "application/vnd.raftlog.batches")
    urlopen(call).close()
    run("produce", topic, *at, stdin=b"behind\n")
    done = run("consume", topic, "--no-follow", *at, expect=1)
    assert done.stdout == b"before\nvalue\n"
    assert f"{topic}/0: the records from offset 2 on cannot be decoded".encode() in done.stderr
    assert b"at offset 3, or use --skip-undecodable" in done.stderr
    assert b"Traceback" not in done.stderr
    done = run("consume", topic, "--no-follow", "--skip-undecodable", *at)
    assert done.stdout == b"before\nvalue\nbehind\n"
    assert done.stderr.startswith(b"skipped: ")
    assert run("consume", topic, "--no-follow", "--from", "3", *at).stdout == b"behind\n"
    run("consume", topic, "--no-follow", "--group", "readers", *at, expect=1)
    offsets = json.loads(run("group", "describe", "readers", "--json", *at).stdout)
    assert "2" in json.dumps(offsets), "what was printed is committed, and nothing behind it"


def test_the_error_for_an_offset_out_of_range_names_the_partition(run: Any, at: tuple[str, str]) -> None:
    run("topic", "create", "narrow", "-p", "3", *at)
    done = run("consume", "narrow", "--from", "7", "--no-follow", *at, expect=1)
    assert done.stderr.decode().startswith("error: narrow/")
    assert b"offset 7 is out of range" in done.stderr
    assert done.stderr.count(b"\n") == 1, "the other partitions are not asked on a closed connection"
