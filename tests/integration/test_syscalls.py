"""System calls of the broker, traced by strace: a response is sent after the sync of its data."""

import http.client
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson
import pytest

TRACED = "pwrite64,pwritev,pwritev2,write,writev,sendto,sendmsg,fdatasync,fsync,io_submit,io_getevents"


@contextmanager
def traced_broker(data: Path, trace: Path, method: str) -> Iterator[http.client.HTTPConnection]:
    """Run a broker under strace; the trace is complete once the block ends."""
    command = [
        *("strace", "-f", "-yy", "-s", "400", "-e", f"trace={TRACED}", "-o", str(trace)),
        *(sys.executable, "-m", "raftlog.cli", "serve", "--data-dir", str(data), "--http", "127.0.0.1:0"),
        *("--kafka", "none", "--log-format", "json", "--sync-method", method),
    ]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAFTLOG_")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as strace:
        try:
            assert strace.stdout is not None
            address = orjson.loads(strace.stdout.readline())["http"]
            host, _, port = address.partition(":")
            connection = http.client.HTTPConnection(host, int(port), timeout=60)
            yield connection
            connection.close()
        finally:
            children = Path(f"/proc/{strace.pid}/task/{strace.pid}/children").read_text().split()
            for child in children:
                os.kill(int(child), signal.SIGTERM)
            strace.communicate(timeout=60)


def post(connection: http.client.HTTPConnection, path: str, body: object) -> None:
    connection.request("POST", path, orjson.dumps(body), {"Content-Type": "application/json"})
    with connection.getresponse() as answer:
        text = answer.read()
    assert answer.status in (200, 201), text


@pytest.mark.parametrize("method", ["aio", "threads"])
def test_every_answer_leaves_after_the_sync_of_its_record(tmp_path: Path, method: str) -> None:
    trace = tmp_path / "trace"
    count = 5
    with traced_broker(tmp_path / "data", trace, method) as connection:
        post(connection, "/v3/clusters/-/topics", {"topic_name": "traced"})
        for number in range(count):
            post(connection, "/topics/traced/partitions/0", {"records": [{"value": f"payload-{number}"}]})
    events = read_events(trace.read_text())
    for number in range(count):
        written = next(at for at, (kind, text) in enumerate(events) if kind == "write" and f"payload-{number}" in text)
        synced = next(at for at, (kind, _) in enumerate(events) if kind == "synced" and at > written)
        answered = next(
            at for at, (kind, text) in enumerate(events) if kind == "answer" and f'\\"offset\\":{number},' in text
        )
        assert written < synced < answered, f"record {number}: {events[written : answered + 1]}"
    assert sum(kind == "synced" for kind, _ in events) >= count


def read_events(trace: str) -> list[tuple[str, str]]:
    """Return the trace as journal writes, journal syncs at the time of their return, and responses."""
    events = []
    waiting: set[str] = set()
    submitted = 0
    for line in trace.splitlines():
        thread, _, call = line.partition(" ")
        call = call.strip()
        is_journal = re.search(r"/\.raftlog/journal/", call) is not None
        if call.startswith(("pwrite64(", "pwritev(", "pwritev2(")) and is_journal:
            events.append(("write", call))
        elif call.startswith("fdatasync(") and is_journal:
            if "unfinished" in call:
                waiting.add(thread)
            elif call.endswith("= 0"):
                events.append(("synced", call))
        elif call.startswith("io_submit(") and is_journal:
            assert "IOCB_CMD_FDSYNC" in call, call
            submitted += 1
        elif call.startswith("io_getevents(") and submitted:
            assert call.count("res=0,") == call.count("res="), call
            ended = min(submitted, call.count("res="))
            submitted -= ended
            events += [("synced", call)] * ended
        elif "fdatasync resumed" in call and thread in waiting:
            waiting.remove(thread)
            assert call.endswith("= 0"), call
            events.append(("synced", call))
        elif call.startswith(("write(", "writev(", "sendto(", "sendmsg(")) and "HTTP/1.1 200" in call:
            events.append(("answer", call))
    return events
