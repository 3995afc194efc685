"""Measure of `raftlog backup` of a large partition while clients write, and of `raftlog restore` from it.

    rate = bytes of the saved batches ÷ time of the command, its start included

The writes have an interval of their own that begins before the backup and ends after it. The restored partition is read
back as batches and compared with the first one's: offsets, and all bytes that their producers wrote."""

import hashlib
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from bench.catch_up import fill
from bench.child import run_in_child
from bench.cluster_http import TOPIC, cluster_of_three, create_topic, port_of, ports_of
from bench.measure import Figure, Measure, Values, Workspace, require
from bench.open_loop import offer
from bench.read_back import read_batches
from raftlog.records import crc_matches

MIB: Final = 2_048
OFFERED_PER_S: Final = 500
_SLOWEST_MB_PER_S: Final = 50.0
"""Rate of the backup that determines the duration of the offered load."""
_AROUND_S: Final = 2.0
_COMMAND_S_MAX: Final = 600.0
_AFTER_LEADER_EPOCH: Final = 16
"""Position in a batch after the fields that a broker assigns when it appends it."""


def hash_batches(port: int, end: int) -> dict[str, str | int]:
    """Return the number of records of partition 0 before offset `end`, and a hash of them; in a child process."""
    digest, count = hashlib.sha256(), 0
    for header, batch in read_batches(port, f"/topics/{TOPIC}/partitions/0"):
        if header.base_offset >= end:
            break
        require(crc_matches(batch, header), f"the batch at offset {header.base_offset} is not sound")
        digest.update(header.base_offset.to_bytes(8, "big"))
        digest.update(batch[_AFTER_LEADER_EPOCH:])
        count += header.record_count
    return {"records": count, "hash": digest.hexdigest()}


def _run_command(*arguments: str) -> tuple[dict[str, Any], float]:
    """Run a command of raftlog; return its result, and its seconds."""
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "raftlog.cli", *arguments, "--json"],
        capture_output=True,
        text=True,
        check=False,
        timeout=_COMMAND_S_MAX,
    )
    seconds = time.perf_counter() - began
    require(done.returncode == 0, f"raftlog {arguments[0]} failed: {done.stderr.strip()[-500:]}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result, seconds


def run(workspace: Workspace) -> Values:
    """Fill a partition, save it while clients write, restore it in a new cluster, and compare all records."""
    size_bytes = workspace.bulk_mib(MIB) << 20
    with workspace.directory() as directory:
        store = directory / "backup"
        with cluster_of_three(directory / "old") as cluster:
            create_topic(cluster)
            workspace.show_stage("filling the partition")
            filled = run_in_child(fill, port=port_of(cluster, cluster.leader(TOPIC)), size_bytes=size_bytes)["bytes"]
            cluster.wait_healthy()
            saved, backup_s, offered = _back_up(workspace, cluster.bootstrap, store, ports_of(cluster), filled)
            workspace.show_stage("reading the records")
            expected = run_in_child(hash_batches, port=port_of(cluster, 1), end=saved["records"])
        with cluster_of_three(directory / "new") as cluster:
            workspace.show_stage("restoring")
            restored, restore_s = _run_command("restore", str(store), "--bootstrap", cluster.bootstrap)
            found = run_in_child(hash_batches, port=port_of(cluster, 1), end=saved["records"])
    require(restored["records"] == saved["records"], f"{saved['records']} were saved, {restored['records']} restored")
    require(found == expected, f"the restored records differ: {found}, not {expected}")
    return {
        "backup_mb_per_s": filled / backup_s / 1e6,
        "restore_mb_per_s": filled / restore_s / 1e6,
        "p99_ms": offered["p99_ms"],
        "failed": offered["offered"] - offered["succeeded"],
        "records_compared": found["records"],
    }


def _back_up(
    workspace: Workspace, bootstrap: str, store: Path, ports: list[int], filled: int
) -> tuple[dict[str, Any], float, dict[str, Any]]:
    """Save the cluster under load; return the command's result and seconds, and the load's result."""
    workspace.show_stage("saving")
    seconds = filled / 1e6 / _SLOWEST_MB_PER_S + 2 * _AROUND_S
    with ThreadPoolExecutor(1) as pool:
        load = pool.submit(run_in_child, offer, ports=ports, topic=TOPIC, per_s=OFFERED_PER_S, seconds=seconds)
        time.sleep(_AROUND_S)
        saved, backup_s = _run_command("backup", str(store), "--bootstrap", bootstrap)
        require(not load.done(), f"the backup took {backup_s:.0f} s, longer than the load of {seconds:.0f} s")
        return saved, backup_s, load.result()


MEASURES = (
    Measure(
        "backup",
        f"three brokers: backup of {MIB / 1024:g} GiB under {OFFERED_PER_S} writes/s, and its restoration",
        "`raftlog serve` three times on loopback and one disk, a topic with one partition and three replicas, filled "
        f"with batches of 1,000 records of 100 bytes. `raftlog backup` to a directory while {OFFERED_PER_S} writes a "
        "second are offered to all brokers in turn, then `raftlog restore` into a new cluster, with its comparison. "
        "Finally every record of both clusters is read and compared.",
        (
            Figure("backup_mb_per_s", "backup", "MB/s", at_least=80),
            Figure("restore_mb_per_s", "restoration and its comparison", "MB/s"),
            Figure("p99_ms", "p99 of the writes meanwhile", "ms"),
            Figure("failed", "writes that failed", "", at_most=0),
        ),
        run,
    ),
)
