"""Measure of a rolling restart of a cluster, by its effects on clients that write."""

import asyncio
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from bench.cluster_events import dev_process
from bench.measure import Figure, Measure, MeasureFailed, Values, Workspace, require
from bench.read_back import require_read_back
from bench.steady_load import SteadyLoad, SteadyReport
from raftlog.client import BrokerClient
from raftlog.types import TopicPartition

TOPIC = "bench"
PARTITIONS = 12
WRITERS = 2
INTERVAL_S = 0.05
PER_S = round(PARTITIONS * WRITERS / INTERVAL_S)
DEADLINE_S = 5.0
QUIET_S = 3.0
ROLLING_S_MAX = 180.0


async def _run_with_load(directory: Path, addresses: list[str]) -> tuple[SteadyReport, list[dict[str, Any]]]:
    """Run the load before, during and after the restart; return its report and the command's output."""
    async with BrokerClient(addresses) as client:
        await client.create_topic(TOPIC, PARTITIONS, len(addresses))
    places = [TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)]
    load = SteadyLoad(addresses, places, writers=WRITERS, interval_s=INTERVAL_S, deadline_s=DEADLINE_S)
    async with load:
        await asyncio.sleep(QUIET_S)
        steps = await _run_rolling_restart(directory)
        await asyncio.sleep(QUIET_S)
    return load.report(), steps


async def _run_rolling_restart(directory: Path) -> list[dict[str, Any]]:
    """Run `raftlog cluster rolling-restart` and return the steps that it printed."""
    command = [
        sys.executable,
        "-m",
        "raftlog.cli",
        "cluster",
        "rolling-restart",
        "--json",
        "--data-dir",
        str(directory),
    ]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(ROLLING_S_MAX):
            printed, errors = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        raise MeasureFailed(f"the rolling restart took more than {ROLLING_S_MAX:g} s") from None
    require(process.returncode == 0, f"the rolling restart failed: {errors.decode(errors='replace').strip()}")
    return [json.loads(line) for line in printed.splitlines()]


def run(workspace: Workspace) -> Values:
    """Restart all brokers one by one under load; check that all acknowledged records are stored."""
    with workspace.directory() as directory, dev_process(directory / "dev") as process:
        assert process.stdout is not None, "a child without stdout"
        line = process.stdout.readline()
        require(bool(line), "raftlog dev ended")
        nodes = json.loads(line)["nodes"]
        report, steps = asyncio.run(_run_with_load(directory / "dev", [node["http"] for node in nodes]))
        restarted = Counter(step["node_id"] for step in steps if step["event"] == "restarted")
        require(restarted == {node["node_id"]: 1 for node in nodes}, f"restarted were {dict(restarted)}")
        port = int(nodes[0]["http"].rpartition(":")[2])
        sent = report.written + report.failed + report.unknown
        # A record whose first attempt had an unknown outcome was sent again, and may be stored twice.
        stored = require_read_back(
            port, TOPIC, report.written, sent, partitions=PARTITIONS, all_differ=report.unknown == 0
        )
    return {
        "failed": report.failed,
        "gap_s": report.longest_gap_s,
        "write_s": report.longest_s,
        "unknown": report.unknown,
        "refused": report.refused,
        "seconds": steps[-1]["seconds"],
        "writes": report.written,
        "reasons": json.dumps(report.reasons),
        **stored,
    }


MEASURES = (
    Measure(
        "rolling-restart",
        f"three brokers of `raftlog dev`, {PARTITIONS} partitions: rolling restart under load",
        f"{WRITERS} writers of each partition write a record every {INTERVAL_S * 1000:g} ms ({PER_S} writes/s in all), "
        f"each tried again for {DEADLINE_S:g} s, while `raftlog cluster rolling-restart` restarts all brokers. A gap "
        "is the longest time between two acknowledgements of one partition, the pace of its writers included. At the "
        "end every acknowledged record has to be read back.",
        (
            Figure("failed", "writes that failed for good", "", at_most=0),
            Figure("gap_s", "longest gap of a partition", "s", at_most=1.0),
            Figure("write_s", "longest write, with all its attempts", "s"),
            Figure("unknown", "attempts with an unknown outcome", ""),
            Figure("refused", "attempts that were refused", ""),
            Figure("seconds", "the restart of all three", "s"),
        ),
        run,
    ),
)
