"""Transactions of the Java client: outcomes of calls, their answers, and the end of the process."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from click.testing import CliRunner

from clients.packages import NotInstalled
from jepsen.runner import command
from jepsen.workloads.adapters.java_process import JavaProcess
from jepsen.workloads.adapters.java_transactions import JavaChainConsumer, JavaTransactional
from jepsen.workloads.adapters.transactional import ChainSettings, TransactionSettings
from raftlog.errors import OutcomeUnknown, RaftlogError, Unavailable
from raftlog.types import TopicPartition
from tests.waiting import until

PROGRAM = """
import json, sys
answers, late = json.loads(sys.argv[1]), []
for line in sys.stdin:
    number, client, verb, *arguments = line.rstrip("\\n").split("\\t")
    answer = answers[verb].pop(0) if answers.get(verb) else "ok"
    if answer == "end":
        sys.exit(3)
    if answer == "late":
        late.append(number)
        continue
    if answer == "echo":
        answer = "\\t".join(("ok", client, *arguments))
    print(number, answer, sep="\\t")
    while late:
        print(late.pop(), "ok", "late", sep="\\t")
    sys.stdout.flush()
"""
"""Program in place of the one in Java: it has answers for some verbs, each in turn, and then `ok`.

A `late` answer comes after the answer to the next call."""
TIMEOUT = "error\tTimeoutException\ttoo late"
ABORTABLE = "error\tTransactionAbortableException\ta record failed"
FENCED = "error\tProducerFencedException\tan old epoch"
INVALID = "error\tIllegalStateException\tnot in a transaction"


@asynccontextmanager
async def processes(**answers: list[str]) -> AsyncIterator[JavaProcess]:
    process = JavaProcess([sys.executable, "-c", PROGRAM, json.dumps(answers)], "nowhere")
    try:
        yield process
    finally:
        await process.close()


async def begin_slow_call(process: JavaProcess) -> "asyncio.Task[list[str]]":
    call = asyncio.create_task(process.call("a", "slow"))
    await until(lambda: process._answers)
    return call


def producer_of(process: JavaProcess) -> JavaTransactional:
    return JavaTransactional(process, TransactionSettings("id", 600, 300))


@pytest.mark.parametrize(
    ("commits", "aborts", "outcome"),
    [
        (["ok"], [FENCED], "ok"),
        ([TIMEOUT, TIMEOUT, "ok"], [FENCED], "ok"),
        ([TIMEOUT] * 3, ["ok"], "unknown"),
        ([ABORTABLE], ["ok"], "failed"),
        ([TIMEOUT, ABORTABLE], [TIMEOUT, "ok"], "failed"),
        ([ABORTABLE], [TIMEOUT] * 3, "unknown"),
        ([ABORTABLE], ["end"], "unknown"),
        ([FENCED], [FENCED], "unknown"),
        ([INVALID], [INVALID], "unknown"),
        (["end"], ["ok"], "unknown"),
    ],
)
async def test_a_commit_has_failed_only_if_the_library_completes_the_abort(
    commits: list[str], aborts: list[str], outcome: str
) -> None:
    asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)
    async with processes(commit=commits, abort=aborts) as process:
        producer = producer_of(process)
        await producer.start()
        try:
            await producer.commit()
        except RaftlogError as error:
            assert outcome == error.outcome  # noqa: PT017 - one case has no error
        else:
            assert outcome == "ok"


@pytest.mark.parametrize(
    ("verb", "call"),
    [
        ("initialize", lambda producer: producer.start()),
        ("begin", lambda producer: producer.begin()),
        ("abort", lambda producer: producer.abort()),
    ],
)
async def test_the_errors_of_other_calls_are_definite(verb: str, call: Callable[[JavaTransactional], Any]) -> None:
    async with processes(**{verb: [FENCED]}) as process:
        with pytest.raises(RaftlogError, match="ProducerFencedException: an old epoch") as raised:
            await call(producer_of(process))
    assert type(raised.value) is Unavailable  # the history names errors by their classes


async def test_an_append_without_an_offset_is_unknown() -> None:
    async with processes(append=["ok\t7", "ok\t-1", TIMEOUT]) as process:
        producer, place = producer_of(process), TopicPartition("t", 0)
        assert await producer.append(place, b"a") == 7
        for _ in range(2):
            with pytest.raises(OutcomeUnknown):
                await producer.append(place, b"a")


async def test_calls_are_answered_in_any_order() -> None:
    async with processes(slow=["late"], quick=["echo"]) as process:
        slow = await begin_slow_call(process)
        assert await process.call("b", "quick", "x", 1) == ["b", "x", "1"]
        assert await slow == ["late"]


async def test_a_cancelled_call_does_not_disturb_the_others() -> None:
    async with processes(slow=["late"]) as process:
        (await begin_slow_call(process)).cancel()
        assert await process.call("a", "begin") == []
        assert await process.call("a", "begin") == []


async def test_records_and_stable_offsets_of_a_consumer() -> None:
    record, tombstone = "t\t1\t5\t99\t-\tYQ==", "t\t2\t6\t99\taw==\t-"
    async with processes(poll=[f"ok\t{record}\t{tombstone}", "ok"], stable=["ok\tt\t1\t5\tt\t2\t-"]) as process:
        consumer = JavaChainConsumer(process, ChainSettings("t", "g", (), 3_000, 5))
        await consumer.start()
        assert [tuple(each) for each in await consumer.poll(1)] == [
            ("t", 1, 5, 99, None, b"a", []),
            ("t", 2, 6, 99, b"k", None, []),
        ]
        assert await consumer.poll(1) == []
        assert await consumer.stable(1) == {TopicPartition("t", 1): 5, TopicPartition("t", 2): None}


async def test_the_end_of_the_process_fails_open_and_later_calls_and_is_reported() -> None:
    reported: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: reported.append(context["message"]))
    async with processes(slow=["late"], commit=["end"]) as process:
        slow = await begin_slow_call(process)
        with pytest.raises(Unavailable, match="ended with 3"):
            await process.call("b", "commit")
        with pytest.raises(Unavailable, match="ended with 3"):
            await slow
        with pytest.raises(Unavailable):
            await process.call("b", "begin")
        await producer_of(process).close()
    assert reported == ["the Java process ended with 3"]


async def test_a_closed_process_ends_without_a_report() -> None:
    reported: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: reported.append(context))
    async with processes(slow=["late"]) as process:
        slow = await begin_slow_call(process)
    for call in (slow, process.call("a", "begin")):
        with pytest.raises(Unavailable, match="was closed"):
            await call
    assert reported == []


@pytest.mark.parametrize("workload", ["log", "idempotent", "groups", "register"])
def test_other_workloads_are_refused(workload: str) -> None:
    done = CliRunner().invoke(command.test, ["--client", "java", "--workload", workload])
    assert (done.exit_code, "--client java knows the workloads transactions" in done.stderr) == (2, True)


def test_a_program_that_cannot_be_installed_ends_the_test_before_its_load(monkeypatch: pytest.MonkeyPatch) -> None:
    def install() -> list[str]:
        raise NotInstalled("mvn is missing")

    monkeypatch.setattr(command, "java_command", install)
    done = CliRunner().invoke(command.test, ["--client", "java", "--workload", "transactions", "--faults", "none"])
    assert (done.exit_code, "--client java: mvn is missing" in done.stderr) == (2, True)
