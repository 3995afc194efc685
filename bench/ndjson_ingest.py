"""Measure of one NDJSON request larger than any memory: its rate, and the memory of each broker."""

import json
import socket
import time
from pathlib import Path
from typing import Any

from bench import probes
from bench.child import run_in_child
from bench.cluster_http import TOPIC, cluster_of_three, create_topic, port_of, restart_all
from bench.measure import Figure, Measure, MeasureFailed, Values, Workspace, require
from bench.read_back import require_read_back
from bench.service import HOST

_USUAL_MIB = 1024
_SHORT_LINES_MIB = 128
_LINE_BYTES = 1_000
_SHORT_LINE_BYTES = 200
_LINES_PER_CHUNK = 256
_ANSWER_S_MAX = 120.0
_MIB = 1 << 20
_WARM_MIB = 4


def send(port: int, total_bytes: int, line_bytes: int, query: str) -> dict[str, Any]:
    """Send `total_bytes` of different lines in one request without a length; return the answer and the seconds."""
    head, tail = b'{"value":{"number":', b',"text":"' + b"x" * (line_bytes - 42) + b'"}}\n'
    line = b"%b%012d%b"
    with socket.create_connection((HOST, port), timeout=_ANSWER_S_MAX) as connection:
        path = f"/topics/{TOPIC}/partitions/0{query}"
        begin = time.perf_counter()
        connection.sendall(
            f"POST {path} HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/x-ndjson\r\n"
            "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n".encode()
        )
        sent = lines = 0
        while sent < total_bytes:
            first = lines + 1_000_000_000_00
            chunk = b"".join([line % (head, number, tail) for number in range(first, first + _LINES_PER_CHUNK)])
            connection.sendall(b"%x\r\n%b\r\n" % (len(chunk), chunk))
            sent += len(chunk)
            lines += _LINES_PER_CHUNK
        connection.sendall(b"0\r\n\r\n")
        with connection.makefile("rb") as stream:
            answer = stream.read()
        seconds = time.perf_counter() - begin
    status, _, body = answer.partition(b"\r\n")
    if b" 200 " not in status:
        raise MeasureFailed(f"POST {path}: {answer[-600:]!r}")
    answered = json.loads(body.partition(b"\r\n\r\n")[2])
    require(answered["records"] == lines, f"{lines} lines were sent, and {answered['records']} records stored")
    return {"bytes": sent, "lines": lines, "seconds": seconds}


def run(workspace: Workspace) -> Values:
    mib = workspace.bulk_mib(_USUAL_MIB)
    with workspace.directory() as directory:
        long = _ingest(directory / "long", mib, _LINE_BYTES, "")
        short = _ingest(directory / "short", min(mib, _SHORT_LINES_MIB), _SHORT_LINE_BYTES, "")
        plain = _ingest(directory / "values", min(mib, _SHORT_LINES_MIB), _SHORT_LINE_BYTES, "?lines=values")
    return {
        **long,
        "short_mb_per_s": short["mb_per_s"],
        "short_growth_mib": short["growth_mib"],
        "values_mb_per_s": plain["mb_per_s"],
    }


def _ingest(directory: Path, mib: int, line_bytes: int, query: str) -> dict[str, float]:
    directory.mkdir()
    with cluster_of_three(directory) as cluster:
        create_topic(cluster)
        port = port_of(cluster, cluster.leader(TOPIC))
        pids = [node.pid for node in cluster.nodes.values()]
        before = [probes.memory_mib(pid)[0] for pid in pids]
        warm = run_in_child(send, port=port, total_bytes=_WARM_MIB * _MIB, line_bytes=line_bytes, query=query)
        cpu = sum(map(probes.cpu_seconds, pids))
        done = run_in_child(send, port=port, total_bytes=mib * _MIB, line_bytes=line_bytes, query=query)
        cpu = sum(map(probes.cpu_seconds, pids)) - cpu
        growth = [probes.memory_mib(pid)[1] - was for pid, was in zip(pids, before, strict=True)]
        restart_all(cluster)
        lines = warm["lines"] + done["lines"]
        # The warm-up's lines are the same as the first of the load.
        stored = require_read_back(port, TOPIC, lines, lines, all_differ=False)
    return {
        "mb_per_s": done["bytes"] / done["seconds"] / 1e6,
        "growth_mib": max(growth),
        "before_mib": max(before),
        "cpu_s_per_gb": cpu / done["bytes"] * 1e9,
        "mib": mib,
        **stored,
    }


MEASURES = (
    Measure(
        "ndjson-ingest",
        "three brokers over HTTP: one NDJSON request of 1 GiB",
        f"`raftlog serve` three times on loopback and one disk, a topic with one partition and three replicas. One "
        f"POST of unknown length (chunked) to the leader, {_USUAL_MIB} MiB in lines of {_LINE_BYTES:,} bytes, each a "
        "record with a JSON value that differs; the time from the first byte to the answer, which comes when all is "
        "synced on a majority. Memory is the peak of each broker's resident set above what it was when idle. Then the "
        "same with short lines, as records and as bare values. Afterwards all three are killed and started again, and "
        "everything is read back.",
        (
            Figure("mb_per_s", "lines of 1,000 bytes", "MB/s", at_least=40),
            Figure("growth_mib", "… memory of the broker that grew most", "MiB", at_most=50),
            Figure("cpu_s_per_gb", "… CPU of all three brokers", "s/GB"),
            Figure("short_mb_per_s", "lines of 200 bytes", "MB/s"),
            Figure("short_growth_mib", "… memory of the broker that grew most", "MiB"),
            Figure("values_mb_per_s", "lines of 200 bytes, stored as values", "MB/s"),
        ),
        run,
    ),
)
