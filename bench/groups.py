"""Measures of consumer groups on three brokers: commits of offsets, rebalances, memory of idle groups."""

import asyncio
import json
import time
from statistics import median
from typing import Any

import aiohttp

from bench import probes
from bench.child import run_in_child
from bench.cluster_http import TOPIC, cluster_of_three, create_topic, port_of, restart_all
from bench.measure import Figure, Measure, MeasureFailed, Values, Workspace, require
from bench.read_back import BATCHES_TYPE
from bench.samples import percentile
from bench.service import HOST
from raftlog.assignors import ASSIGNORS, Subscription, decode_subscription, encode_assignment, encode_subscription
from raftlog.client import BrokerClient
from raftlog.client.group_answers import Membership
from raftlog.client.transport import LEADER_HEADER
from raftlog.errors import RaftlogError
from raftlog.records import BatchBuilder, NewRecord
from raftlog.testing import Cluster
from raftlog.testing.http import ask

IN_FLIGHT = 64
WARM_S = 2.0
COMMITS_S = 15.0
PARTITIONS = 50
MEMBERS = 10
TURNS = 5
SESSION_MS = 10_000
GROUPS = 1_000
OFFSETS_PER_GROUP = 10
PRODUCERS = 100_000
_SETTLED_S_MAX = 60.0
_HEARTBEAT_MS = 3_000
_ANSWER_S_MAX = 30.0
_JSON = {"Content-Type": "application/json"}


# commits


def commit_closed(ports: list[int], in_flight: int, warm_s: float, seconds: float) -> dict[str, Any]:
    """Commit offsets in a closed loop, each client for its own consumer group; in a child process.

    Each sends to the coordinator named by the answers, as `raftlog.client` does."""
    return asyncio.run(_commit_closed(ports, in_flight, warm_s, seconds))


async def _commit_closed(ports: list[int], in_flight: int, warm_s: float, seconds: float) -> dict[str, Any]:
    """Commit offsets of `in_flight` groups in closed loops.

    Returns the rate, the latencies, and the last committed offset of each group."""
    took: list[float] = []
    last = dict.fromkeys(range(in_flight), 0)
    begin = time.perf_counter() + warm_s
    end = begin + seconds

    async def commit(session: aiohttp.ClientSession, number: int) -> None:
        """Commit rising offsets of one group, one after another, until the end of the load."""
        address = f"{HOST}:{ports[number % len(ports)]}"
        while (sent := time.perf_counter()) < end:
            url = f"http://{address}/groups/group-{number}/offsets"
            entry = {"topic": TOPIC, "partition": number % PARTITIONS, "offset": last[number] + 1}
            async with session.post(url, data=json.dumps({"offsets": [entry]}), headers=_JSON) as response:
                if response.status != 200:
                    raise MeasureFailed(f"POST {url}: {response.status} {(await response.text())[:300]}")
                await response.read()
                address = response.headers.get(LEADER_HEADER, address)
            last[number] += 1
            if sent >= begin:
                took.append(time.perf_counter() - sent)

    connector = aiohttp.TCPConnector(limit=in_flight)
    timeout = aiohttp.ClientTimeout(total=_ANSWER_S_MAX)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        await asyncio.gather(*(commit(session, number) for number in range(in_flight)))
    took.sort()
    return {
        "per_s": len(took) / seconds,
        "p50_ms": percentile(took, 50) * 1000,
        "p99_ms": percentile(took, 99) * 1000,
        "commits": len(took),
        "last": [last[number] for number in range(in_flight)],
    }


def run_commits(workspace: Workspace) -> Values:
    """Measure commits of offsets; check that the last ones survive a restart."""
    with workspace.directory() as directory, cluster_of_three(directory) as cluster:
        create_topic(cluster, PARTITIONS)
        ports = [port_of(cluster, node) for node in cluster.nodes]
        done = run_in_child(commit_closed, ports=ports, in_flight=IN_FLIGHT, warm_s=WARM_S, seconds=COMMITS_S)
        last = done.pop("last")
        restart_all(cluster)
        for number, offset in enumerate(last):
            answered = cluster.nodes[1 + number % 3].get(f"/groups/group-{number}/offsets", _ANSWER_S_MAX)
            found = [each["offset"] for each in answered["offsets"]]
            require(found == [offset], f"group-{number} committed {offset}, and {found} is there after a restart")
    return {**done, "read_back": len(last)}


# rebalances


class _Member:
    """Group member that computes the assignment if it is the group leader, and reports the time of each assignment."""

    def __init__(self, addresses: list[str], settled: dict[str, tuple[int, float]]) -> None:
        self._addresses, self._settled = addresses, settled
        self.name = ""
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        async with BrokerClient(self._addresses) as client:
            while True:
                try:
                    await self._stay_in_group(client)
                except RaftlogError:
                    continue

    async def _stay_in_group(self, client: BrokerClient) -> None:
        subscription = encode_subscription(Subscription((TOPIC,)))
        joined = await client.groups.join(
            "bench", {"range": subscription}, member_id=self.name, session_timeout_ms=SESSION_MS
        )
        self.name = joined.member_id
        member = Membership(joined.member_id, joined.generation)
        assignments = {}
        if joined.members:
            subscriptions = {each.member_id: decode_subscription(each.metadata) for each in joined.members}
            shares = ASSIGNORS["range"](subscriptions, {TOPIC: PARTITIONS})
            assignments = {name: encode_assignment(share) for name, share in shares.items()}
        await client.groups.sync("bench", member, assignments)
        self._settled[self.name] = (joined.generation, time.monotonic())
        while True:
            await client.groups.heartbeat("bench", member, wait_ms=_HEARTBEAT_MS)

    async def kill(self) -> None:
        """Stop without a leave request."""
        self.task.cancel()
        await asyncio.wait([self.task])
        self._settled.pop(self.name, None)


def rebalance(addresses: list[str]) -> dict[str, Any]:
    """Let one member join and one crash, repeatedly; in a child process."""
    return asyncio.run(_rebalance(addresses))


async def _rebalance(addresses: list[str]) -> dict[str, Any]:
    """Let members join and be killed in turn.

    Returns the seconds until all members have assignments of a new generation."""
    settled: dict[str, tuple[int, float]] = {}
    members = [_Member(addresses, settled) for _ in range(MEMBERS)]
    await _wait_until_settled(settled, MEMBERS, 0)
    join_s, kill_s = [], []
    for turn in range(TURNS):
        await asyncio.sleep(turn / TURNS)
        generation = max(each for each, _ in settled.values())
        begin = time.monotonic()
        members.append(_Member(addresses, settled))
        join_s.append(await _wait_until_settled(settled, MEMBERS + 1, generation) - begin)
        generation = max(each for each, _ in settled.values())
        begin = time.monotonic()
        await members.pop(0).kill()
        kill_s.append(await _wait_until_settled(settled, MEMBERS, generation) - begin)
    for member in members:
        await member.kill()
    return {
        "join_s": median(join_s),
        "longest_join_s": max(join_s),
        "kill_s": median(kill_s),
        "longest_kill_s": max(kill_s),
    }


async def _wait_until_settled(settled: dict[str, tuple[int, float]], count: int, after: int) -> float:
    """Wait until `count` members have assignments of one generation above `after`; return the time of the last."""
    async with asyncio.timeout(_SETTLED_S_MAX):
        while True:
            generations = {generation for generation, _ in settled.values()}
            if len(settled) == count and len(generations) == 1 and generations.pop() > after:
                return max(at for _, at in settled.values())
            await asyncio.sleep(0.002)


def run_rebalance(workspace: Workspace) -> Values:
    """Measure the rebalances of a consumer group."""
    with workspace.directory() as directory, cluster_of_three(directory) as cluster:
        create_topic(cluster, PARTITIONS)
        return run_in_child(rebalance, addresses=[node.http for node in cluster.nodes.values()])


# memory


def fill_groups(ports: list[int], groups: int, producers: int) -> dict[str, Any]:
    """Commit offsets for many groups, and write a batch of each of many producers; in a child process."""
    return asyncio.run(_fill_groups(ports, groups, producers))


async def _fill_groups(ports: list[int], groups: int, producers: int) -> dict[str, Any]:
    """Commit offsets of many groups, and append a record of each of many producers."""

    async def post(session: aiohttp.ClientSession, number: int, path: str, body: bytes, kind: str) -> Any:
        """Send a POST request to one of the brokers, and return its JSON answer. Raises `MeasureFailed`."""
        url = f"http://{HOST}:{ports[number % len(ports)]}{path}"
        async with session.post(url, data=body, headers={"Content-Type": kind}) as response:
            if response.status != 200:
                raise MeasureFailed(f"POST {url}: {response.status} {(await response.text())[:300]}")
            return await response.json()

    async def work(session: aiohttp.ClientSession) -> None:
        for number in turns:
            if number < groups:
                offsets = [
                    {"topic": TOPIC, "partition": partition, "offset": number} for partition in range(OFFSETS_PER_GROUP)
                ]
                body = json.dumps({"offsets": offsets}).encode()
                await post(session, number, f"/groups/group-{number}/offsets", body, _JSON["Content-Type"])
            else:
                path = f"/topics/{TOPIC}/partitions/{number % PARTITIONS}"
                given = await post(session, number, "/producers", b"{}", _JSON["Content-Type"])
                await post(session, number, path, _batch_of(given["producer_id"]), BATCHES_TYPE)

    turns = iter(range(groups + producers))
    connector = aiohttp.TCPConnector(limit=IN_FLIGHT)
    timeout = aiohttp.ClientTimeout(total=_ANSWER_S_MAX)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        await asyncio.gather(*(work(session) for _ in range(IN_FLIGHT)))
    return {"groups": groups, "producers": producers}


def _batch_of(producer_id: int) -> bytes:
    """Return a batch of one record by an idempotent producer."""
    builder = BatchBuilder(producer_id=producer_id, producer_epoch=0, base_sequence=0)
    builder.append(NewRecord(b"x" * 100), time.time_ns() // 1_000_000)
    return bytes(builder.build())


def _memory_by_node(cluster: Cluster) -> dict[int, float]:
    """Return the resident memory of each broker's process in MiB, by node id."""
    return {node: probes.memory_mib(process.pid)[0] for node, process in cluster.nodes.items()}


def run_memory(workspace: Workspace) -> Values:
    """Measure the memory that many groups and producers cost a broker."""
    with workspace.directory() as directory, cluster_of_three(directory) as cluster:
        create_topic(cluster, PARTITIONS)
        ports = [port_of(cluster, node) for node in cluster.nodes]
        run_in_child(fill_groups, ports=ports, groups=10, producers=PARTITIONS)
        before = _memory_by_node(cluster)
        done = run_in_child(fill_groups, ports=ports, groups=GROUPS, producers=PRODUCERS)
        after = _memory_by_node(cluster)
        status, answered = ask(cluster.nodes[1].http, "/groups", timeout_s=_ANSWER_S_MAX)
        require(status == 200 and len(answered["groups"]) == GROUPS, f"there are {len(answered['groups'])} groups")
    return {"more_mib": max(after[node] - before[node] for node in after), "after_mib": max(after.values()), **done}


MEASURES = (
    Measure(
        "group-commits",
        "three brokers over HTTP: commits of offsets",
        f"{IN_FLIGHT} clients, a third at each broker, each commits rising offsets of one partition for a group of its "
        f"own, one request after the other, for {COMMITS_S:g} s after {WARM_S:g} s. Then all three brokers are killed "
        "with SIGKILL and started again, and every group has to have what was acknowledged last.",
        (
            Figure("per_s", f"commits, {IN_FLIGHT} in flight", "/s", at_least=1_500),
            Figure("p99_ms", "… 99 % within", "ms", at_most=60),
            Figure("p50_ms", "… half within", "ms"),
        ),
        run_commits,
    ),
    Measure(
        "group-rebalance",
        f"three brokers over HTTP: rebalances of a group of {MEMBERS}",
        f"Members share {PARTITIONS} partitions by `range`, which their leader computes; their heartbeats wait for "
        f"rebalances. One more joins; then one crashes, with a session of {SESSION_MS // 1000} s; {TURNS} "
        "times. Counted is until every member that is left has its assignment of one new generation.",
        (
            Figure("join_s", f"one joins, median of {TURNS}", "s", at_most=1),
            Figure("longest_join_s", "… longest", "s"),
            Figure("kill_s", f"one crashes, median of {TURNS}", "s", at_most=12),
            Figure("longest_kill_s", "… longest", "s"),
        ),
        run_rebalance,
    ),
    Measure(
        "group-memory",
        "three brokers: what groups and idle producers take in memory",
        f"VmRSS of the broker that grows most, before and after {GROUPS:,} groups committed {OFFSETS_PER_GROUP} "
        f"offsets each and {PRODUCERS:,} idempotent producers wrote one batch each to one of {PARTITIONS} partitions.",
        (
            Figure("more_mib", f"{PRODUCERS:,} producer ids and {GROUPS:,} groups", "MiB more", at_most=100),
            Figure("after_mib", "… the largest broker", "MiB"),
        ),
        run_memory,
    ),
)
