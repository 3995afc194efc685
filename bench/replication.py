"""Measures of replication by three node processes on one disk; a majority has each write before its answer."""

import time
from statistics import median
from typing import Any

from bench.cluster import Cluster, NodeProcess, cluster
from bench.measure import Figure, Measure, Values, Workspace, require

SECONDS = 4.0
WARM_S = 1.0
BATCH_BYTES = 64 * 1024
BATCHES_IN_FLIGHT = 16
KILLS = 5
GROUPS = 1_000
GROUPS_STOPPED = 3_000
IDLE_S = 10.0


def _run_loads(workspace: Workspace, loads: dict[str, dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Run loads on the leader one after another, and read everything back from it."""
    with workspace.directory() as directory, cluster(directory) as nodes:
        nodes.create()
        leader = nodes.wait_for_leader()
        warm = leader.send_command("load", mode="accumulated", in_flight=8, seconds=WARM_S, batch_bytes=0)
        done = {name: _run_load(nodes, leader, load) for name, load in loads.items()}
        operations = int(sum(each["operations"] for each in (warm, *done.values())))
        found = leader.send_command("verify")
        require(found["records"] == operations, f"{operations} acknowledged, {found['records']} stored")
        require(found["different"] == operations, f"{operations} acknowledged, {found['different']} different ones")
    return done


def _run_load(nodes: Cluster, leader: NodeProcess, load: dict[str, Any]) -> dict[str, float]:
    """Load the leader once; return its figures, and the CPU share of the leader and of the busiest follower."""
    before = {number: node.send_command("costs")["cpu_s"] for number, node in nodes.nodes.items()}
    begin = time.perf_counter()
    done = leader.send_command("load", **{"seconds": SECONDS, "batch_bytes": 100, **load})
    elapsed = time.perf_counter() - begin
    used = {number: node.send_command("costs")["cpu_s"] - before[number] for number, node in nodes.nodes.items()}
    followers = [cpu for number, cpu in used.items() if number != leader.number]
    require(done["syncs"] * load["in_flight"] >= done["operations"], f"{done['syncs']} syncs cannot have sufficed")
    return {**done, "leader_cpu": used[leader.number] / elapsed, "follower_cpu": max(followers) / elapsed}


def run_records(workspace: Workspace) -> Values:
    """Measure appends with several numbers in flight, each alone and as accumulated batches."""
    loads = {
        "f64": {"mode": "accumulated", "in_flight": 64},
        "f256": {"mode": "accumulated", "in_flight": 256},
        "a64": {"mode": "alone", "in_flight": 64},
        "a256": {"mode": "alone", "in_flight": 256},
        "f1": {"mode": "alone", "in_flight": 1, "seconds": 1.0},
    }
    done = _run_loads(workspace, loads)
    return {f"{name}_{key}": value for name, values in done.items() for key, value in values.items()}


def run_batches(workspace: Workspace) -> Values:
    load = {"mode": "alone", "in_flight": BATCHES_IN_FLIGHT, "batch_bytes": BATCH_BYTES}
    return _run_loads(workspace, {"batches": load})["batches"]


def run_kills(workspace: Workspace) -> Values:
    """Kill the leader repeatedly; measure the time until a new leader acknowledges a write."""
    gaps = []
    with workspace.directory() as directory, cluster(directory) as nodes:
        nodes.create()
        leader = nodes.wait_for_leader()
        nodes.send_to_all("write_when_leading")
        leader.wait_for_first_ack()
        for _ in range(KILLS):
            time.sleep(WARM_S)
            killed_at = leader.kill()
            del nodes.nodes[leader.number]
            killed, leader = leader.number, nodes.wait_for_leader()
            gaps.append(leader.wait_for_first_ack() - killed_at)
            nodes.start(killed)
            nodes.nodes[killed].send_command("write_when_leading")
    return {"seconds": median(gaps), "longest_s": max(gaps), "shortest_s": min(gaps)}


def run_groups(workspace: Workspace) -> Values:
    """Measure creation, idle cost and memory of many Raft groups."""
    with workspace.directory() as directory, cluster(directory) as nodes:
        begin = time.perf_counter()
        made_s = nodes.create(GROUPS)
        led = nodes.send_to_all("wait_until_settled", groups=GROUPS, quiesced=False)
        created_s = time.perf_counter() - begin
        require(sum(each["led"] for each in led) >= GROUPS, f"{led} groups are led")
        making = nodes.send_to_all("costs")
        nodes.send_to_all("stop_stall_timer")
        nodes.send_to_all("wait_until_settled", groups=GROUPS, quiesced=True)
        before = nodes.send_to_all("costs")
        time.sleep(IDLE_S)
        after = nodes.send_to_all("costs")
    cpu = sum(late["cpu_s"] - early["cpu_s"] for early, late in zip(before, after, strict=True))
    return {
        "made_s": made_s,
        "created_s": created_s,
        "idle_cpu_percent": cpu / IDLE_S * 100,
        "rss_mib": max(each["rss_mib"] for each in after),
        "files": max(each["files"] for each in after),
        "stall_ms": max(each["stall_ms"] for each in making),
    }


def run_partitions(workspace: Workspace) -> Values:
    """Repeatedly kill the process that leads most, at least a third, of many quiesced Raft groups."""
    gaps, opened, killed, files = [], [], [], 0.0
    with workspace.directory() as directory, cluster(directory) as nodes:
        nodes.create(GROUPS)
        nodes.send_to_all("wait_until_settled", groups=GROUPS, quiesced=False)
        for _ in range(KILLS):
            settled = nodes.send_to_all("wait_until_settled", groups=GROUPS, quiesced=True)
            led = {number: each["led"] for number, each in zip(nodes.nodes, settled, strict=True)}
            victim = max(led, key=lambda number: led[number])
            killed.append(led[victim])
            killed_at = nodes.nodes.pop(victim).kill()
            nodes.send_to_all("write_everywhere")
            gaps.append(max(nodes.wait_for_first_writes(GROUPS).values()) - killed_at)
            files = max(files, *(each["files"] for each in nodes.send_to_all("costs")))
            nodes.start(victim)
            opened.append(nodes.opened_s[victim])
            nodes.send_to_all("wait_until_settled", groups=GROUPS, quiesced=False)
    return {
        "seconds": median(gaps),
        "longest_s": max(gaps),
        "shortest_s": min(gaps),
        "opened_s": median(opened),
        "files": files,
        "led_least": min(killed),
    }


def run_stop(workspace: Workspace) -> Values:
    """Stop one of three processes with many Raft groups gracefully, and start it again."""
    with workspace.directory() as directory, cluster(directory) as nodes:
        created_s = nodes.create(GROUPS_STOPPED)
        nodes.send_to_all("wait_until_settled", groups=GROUPS_STOPPED, quiesced=False)
        stopped_s = nodes.nodes[1].send_command("stop")["seconds"]
        nodes.nodes.pop(1).kill()
        nodes.start(1)
    return {"created_s": created_s, "stopped_s": stopped_s, "opened_s": nodes.opened_s[1]}


MEASURES = (
    Measure(
        "replication-records",
        "three nodes: single records of 100 bytes, in-process client on the leader",
        "Three node processes on loopback and one disk, one group of three, settings as they come. Tasks on the "
        f"leader write single records for {SECONDS:g} s, each waiting for its commit: on two disks at least, synced. "
        "Those of one loop turn share a batch, as in a broker; then the same with a batch (an entry) for each. All "
        "values are different, and are read back from the leader. Syncs are counted.",
        (
            Figure("f64_per_s", "64 in flight", "operations/s", at_least=20_000),
            Figure("f64_p99_ms", "… p99", "ms", at_most=8),
            Figure("f256_per_s", "256 in flight", "operations/s", at_least=40_000),
            Figure("f256_p99_ms", "… p99", "ms"),
            Figure("a64_per_s", "64 in flight, a batch for each", "operations/s"),
            Figure("a64_p99_ms", "… p99", "ms"),
            Figure("a256_per_s", "256 in flight, a batch for each", "operations/s"),
            Figure("a256_p99_ms", "… p99", "ms"),
            Figure("f1_p50_ms", "1 in flight, p50", "ms"),
        ),
        run_records,
    ),
    Measure(
        "replication-batches",
        "three nodes: batches of 64 KiB, in-process client on the leader",
        f"The same with {BATCHES_IN_FLIGHT} batches in flight, each of one record of 64 KiB.",
        (
            Figure("mb_per_s", "replicated and synced", "MB/s", at_least=75),
            Figure("p99_ms", "… p99", "ms"),
        ),
        run_batches,
    ),
    Measure(
        "replication-failover",
        "three nodes: SIGKILL of the leader, time without a successful write",
        f"Each node writes one record after another whenever it leads. The leader is killed, {KILLS} times; counted is "
        "the time from the kill to the first write that another node acknowledges. The killed node is started again.",
        (
            Figure("seconds", f"median of {KILLS}", "s", at_most=0.6),
            Figure("longest_s", "… longest", "s"),
        ),
        run_kills,
    ),
    Measure(
        "replication-groups",
        f"three nodes: {GROUPS:,} groups of three",
        "All groups are created on three empty nodes at the same time and have a leader; then they quiesce, and "
        f"for {IDLE_S:g} s nothing is asked of them.",
        (
            Figure("created_s", "created and led", "s", at_most=20),
            Figure("idle_cpu_percent", "idle, CPU of all three together", "% of a core", at_most=5),
            Figure("rss_mib", "resident memory, the largest process", "MiB", at_most=250),
            Figure("files", "open files, most of a process", "", at_most=1_024),
            Figure("stall_ms", "longest that anything held a loop: creating", "ms"),
        ),
        run_groups,
    ),
    Measure(
        "replication-partitions",
        f"three nodes: SIGKILL of the one that leads most of {GROUPS:,} quiesced Raft groups",
        f"The process that leads most groups is killed while all are quiesced, {KILLS} times, and started again. Both "
        "others write one record to each group as soon as they lead it; counted is the time from the kill until every "
        "group accepted a write.",
        (
            Figure("seconds", f"until all take writes, median of {KILLS}", "s", at_most=3),
            Figure("longest_s", "… longest", "s"),
            Figure("files", "open files, most of a process", "", at_most=1_024),
            Figure("opened_s", "recovery at the start", "s"),
        ),
        run_partitions,
    ),
    Measure(
        "replication-stop",
        f"three nodes: one of them stops and starts with {GROUPS_STOPPED:,} groups",
        "All groups are created and led; then one process is stopped in order, and restarted on its directory.",
        (
            Figure("stopped_s", "orderly stop", "s", at_most=5),
            Figure("opened_s", "recovery at the start", "s"),
            Figure("created_s", "created before", "s"),
        ),
        run_stop,
    ),
)
