"""Comparison of raftlog with other programs on one machine in one run: single records to one replicated log.

Three processes, each with its default storage settings, 64 operations in flight at the leader. A further peer is one
more row of `PEERS`: a name, its guarantee, and a function that runs the load in an empty directory."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench.child import run_in_child
from bench.cluster_http import cluster_of_three
from bench.measure import Figure, Measure, MeasureFailed, Values, Workspace, require
from bench.service import HOST, free_port
from raftlog.loadgen import LoadMode, LoadPlan, Mix
from raftlog.loadgen.session import run_session

IN_FLIGHT: Final = 64
SECONDS: Final = 5.0
_WARM_S: Final = 1.0
_NODES: Final = 3
_LEADER_S_MAX: Final = 30.0
_POLL_S: Final = 0.05

PeerResult = dict[str, float]
"""`per_s`, and `p50`, `p99`, `max` in ms."""


class Peer(NamedTuple):
    """Program of the comparison; `promise` describes the durability of its answers."""

    key: str
    name: str
    promise: str
    run: Callable[[Path], PeerResult]


# raftlog


def load_raftlog(bootstrap: list[str]) -> PeerResult:
    """Load raftlog from a child process, as clients have processes of their own."""
    plan = LoadPlan(mode=LoadMode.CLOSED, seconds=SECONDS, mix=Mix.parse("send"), clients=1, in_flight=IN_FLIGHT)
    result = run_session(plan, bootstrap, None, 1, _NODES, warm_s=_WARM_S)
    require(result.succeeded == result.offered, f"raftlog: {dict(result.reasons)}")
    return {"per_s": result.operations_per_s, **result.latencies().as_json()}


def run_raftlog(directory: Path) -> PeerResult:
    with cluster_of_three(directory) as cluster:
        return run_in_child(load_raftlog, bootstrap=cluster.addresses)


# pysyncobj


class _SyncObjProcess:
    """Process of a pysyncobj cluster, with its commands."""

    def __init__(self, directory: Path, own: str, others: list[str], batching: str) -> None:
        journal = str(directory / own.replace(":", "-"))
        command = [sys.executable, "-m", "bench.peer_syncobj", own, journal, batching, *others]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def send_command(self, name: str, **arguments: Any) -> Any:
        """Send one command and return its answer."""
        assert self._process.stdin is not None, "a child without stdin"
        assert self._process.stdout is not None, "a child without stdout"
        self._process.stdin.write(json.dumps([name, arguments]) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        require(bool(line), f"a pysyncobj process ended: {self._process.poll()}")
        return json.loads(line)

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


@contextmanager
def _syncobj(directory: Path, batching: str) -> Iterator[list[_SyncObjProcess]]:
    addresses = [f"{HOST}:{free_port()}" for _ in range(_NODES)]
    processes: list[_SyncObjProcess] = []
    try:
        for own in addresses:
            others = [address for address in addresses if address != own]
            processes.append(_SyncObjProcess(directory, own, others, batching))
        yield processes
    finally:
        for process in processes:
            process.kill()


def run_syncobj(directory: Path, *, batching: str) -> PeerResult:
    with _syncobj(directory, batching) as processes:
        leader = _leader_of(processes)
        leader.send_command("load", seconds=_WARM_S, in_flight=IN_FLIGHT)
        found: PeerResult = leader.send_command("load", seconds=SECONDS, in_flight=IN_FLIGHT)
        require(not found["failed"], f"pysyncobj: {found['failed']} appends failed")
        require(leader.send_command("count") >= found["succeeded"], "pysyncobj: fewer values than successes")
    return found


def _leader_of(processes: list[_SyncObjProcess]) -> _SyncObjProcess:
    until = time.monotonic() + _LEADER_S_MAX
    while time.monotonic() < until:
        for process in processes:
            if process.send_command("leads"):
                return process
        time.sleep(_POLL_S)
    raise MeasureFailed(f"pysyncobj has no leader after {_LEADER_S_MAX:g} s")


PEERS: Final = (
    Peer("raftlog", "raftlog", "synced on a majority; the client over HTTP, in a process of its own", run_raftlog),
    Peer(
        "syncobj",
        "pysyncobj, as it ships",
        "applied by the leader; its journal is written, not synced; the client inside the leader's process",
        partial(run_syncobj, batching="batched"),
    ),
    Peer(
        "syncobj_unbatched",
        "pysyncobj, batches off",
        "the same, with `appendEntriesUseBatch` off, which answers sooner",
        partial(run_syncobj, batching="unbatched"),
    ),
)


def run(workspace: Workspace) -> Values:
    found: dict[str, PeerResult] = {}
    for peer in PEERS:
        with workspace.directory() as directory:
            found[peer.key] = peer.run(directory)
    first = found[PEERS[0].key]
    values: dict[str, float | str] = {}
    for peer in PEERS:
        result = found[peer.key]
        values |= {f"{peer.key}_{name}": result[name] for name in ("per_s", "p50", "p99", "max")}
        values[f"{peer.key}_ratio"] = first["per_s"] / result["per_s"] if result["per_s"] else float("inf")
    return values


def _figures(peer: Peer, *, is_first: bool) -> tuple[Figure, ...]:
    ratio = () if is_first else (Figure(f"{peer.key}_ratio", f"… {PEERS[0].name} ÷ it", "×"),)
    return (
        Figure(f"{peer.key}_per_s", peer.name, "/s"),
        *(Figure(f"{peer.key}_{name}", f"… {name}", "ms") for name in ("p50", "p99", "max")),
        *ratio,
    )


MEASURES = (
    Measure(
        "peers",
        f"single records to one replicated log, {IN_FLIGHT} in flight, on raftlog and on others",
        f"Three processes each on loopback and one disk, one after another in one run; values of 100 characters, all "
        f"different, {SECONDS:g} s after {_WARM_S:g} s of the same. "
        + " ".join(f"{peer.name}: an answer means {peer.promise}." for peer in PEERS),
        tuple(figure for peer in PEERS for figure in _figures(peer, is_first=peer is PEERS[0])),
        run,
    ),
)
