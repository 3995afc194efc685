"""Paired measures: start-up and produce."""

from statistics import median

from bench import load, probes
from bench.load import CONNECTIONS
from bench.measure import Values, Workspace
from bench.paired.brokers import one_broker, three_brokers
from bench.paired.rounds import PairedFigure, PairedMeasure
from bench.paired.trees import Tree
from bench.read_back import BATCHES_TYPE, require_read_back
from bench.samples import RECORDS_PER_BATCH, batches

_IMPORTS = 9
_STARTS = 5
_FOUNDINGS = 3
_SINGLE, _BATCHED = "single", "batched"
_SECONDS = 5
_WARM_SECONDS = 1
_DIFFERENT_BATCHES = 50
_IMPORT = "import time; t = time.perf_counter(); import raftlog; print(time.perf_counter() - t)"
_IMPORT_BROKER = (
    "import time; t = time.perf_counter(); import raftlog.partitions.broker; print(time.perf_counter() - t)"
)


def run_import(tree: Tree, workspace: Workspace) -> Values:
    tree.run("-c", _IMPORT_BROKER)  # compiled once, before it is measured
    return {
        "library_s": min(float(tree.run("-c", _IMPORT)) for _ in range(_IMPORTS)),
        "broker_s": min(float(tree.run("-c", _IMPORT_BROKER)) for _ in range(_IMPORTS)),
    }


def run_start(tree: Tree, workspace: Workspace) -> Values:
    ready_s, cpu_s = [], []
    for _ in range(_STARTS):
        with workspace.directory() as directory, one_broker(tree, directory) as broker:
            ready_s.append(broker.ready_s)
            cpu_s.append(probes.cpu_seconds(broker.pid))
            broker.stop()
    return {"ready_s": median(ready_s), "cpu_s": median(cpu_s)}


def run_start_cluster(tree: Tree, workspace: Workspace) -> Values:
    founded_s, restarted_s, cpu_s = [], [], []
    for _ in range(_FOUNDINGS):
        with workspace.directory() as directory, three_brokers(tree, directory) as cluster:
            founded_s.append(cluster.ready_s)
            cpu_s.append(cluster.cpu_seconds())
            cluster.restart()
            restarted_s.append(cluster.ready_s)
    return {"founded_s": median(founded_s), "restarted_s": median(restarted_s), "cpu_s": median(cpu_s)}


def run_produce(tree: Tree, workspace: Workspace) -> Values:
    pool = batches(_DIFFERENT_BATCHES)
    with workspace.directory() as directory, three_brokers(tree, directory) as cluster:
        for topic in (_SINGLE, _BATCHED):
            cluster.create_topic(topic)
        leader = cluster.leader(_SINGLE)
        path = f"/topics/{_SINGLE}"
        # Values that came before have another first letter than those that are counted: all stay different.
        warm = load.run_wrk("produce.lua", leader.url, path, "1", "w", seconds=_WARM_SECONDS)
        cpu_0 = cluster.cpu_seconds()
        single = load.run_wrk("produce.lua", leader.url, path, "1", seconds=_SECONDS)
        single_cpu_s = cluster.cpu_seconds() - cpu_0
        leader = cluster.leader(_BATCHED)
        headers = {"Content-Type": BATCHES_TYPE}
        path = f"/topics/{_BATCHED}/partitions/0"
        file = load.write_requests(
            directory / "requests", (load.raw_request("POST", leader.port, path, headers, batch) for batch in pool)
        )
        cpu_0 = cluster.cpu_seconds()
        batched = load.run_wrk("replay.lua", leader.url, str(file), seconds=_SECONDS)
        batched_cpu_s = cluster.cpu_seconds() - cpu_0
        cluster.restart()
        port = cluster.leader(_SINGLE).port
        acknowledged = warm.requests + single.requests
        require_read_back(port, _SINGLE, acknowledged, acknowledged + 2 * CONNECTIONS)
        require_read_back(
            cluster.leader(_BATCHED).port,
            _BATCHED,
            batched.requests * RECORDS_PER_BATCH,
            (batched.requests + CONNECTIONS) * RECORDS_PER_BATCH,
            all_differ=False,
        )
    return {
        "single_per_s": single.requests_per_s,
        "single_p99_ms": single.p99_ms,
        "single_cpu_us": single_cpu_s / single.requests * 1e6,
        "batched_per_s": batched.requests_per_s * RECORDS_PER_BATCH,
        "batched_cpu_ns": batched_cpu_s / (batched.requests * RECORDS_PER_BATCH) * 1e9,
    }


MEASURES = (
    PairedMeasure(
        "import",
        "import",
        f"Seconds of `import raftlog` and of `import raftlog.partitions.broker`, clocked inside a new interpreter, "
        f"compiled before; the fastest of {_IMPORTS}, for other programs can only add to it.",
        (
            PairedFigure("library_s", "import raftlog", "s", is_lower_better=True),
            PairedFigure("broker_s", "import raftlog.partitions.broker", "s", is_lower_better=True, is_required=False),
        ),
        run_import,
    ),
    PairedMeasure(
        "start",
        "one broker: start to ready",
        "From the fork of `raftlog serve` on an empty directory to the first 200 of /v1/status/ready; the median of "
        f"{_STARTS} starts. Each broker has to end with exit code 0 on SIGTERM.",
        (
            PairedFigure("ready_s", "start to ready", "s", is_lower_better=True),
            PairedFigure("cpu_s", "… CPU of the broker", "s", is_lower_better=True, is_required=False),
        ),
        run_start,
    ),
    PairedMeasure(
        "start-cluster",
        "three brokers: start to ready",
        "From the fork of the first of three `raftlog serve` on empty directories until all are ready, and the same "
        f"after SIGKILL of all; the median of {_FOUNDINGS} clusters.",
        (
            PairedFigure("founded_s", "founded", "s", is_lower_better=True),
            PairedFigure("restarted_s", "restarted", "s", is_lower_better=True),
            PairedFigure("cpu_s", "founded: CPU of all three", "s", is_lower_better=True, is_required=False),
        ),
        run_start_cluster,
    ),
    PairedMeasure(
        "produce",
        f"three brokers: produce, acknowledged by a majority, {CONNECTIONS} in flight",
        f"wrk, {CONNECTIONS} connections to the leader of a partition with three replicas, {_SECONDS} s each: one JSON "
        f"record of 100 characters a request, then one stored batch of {RECORDS_PER_BATCH:,} records a request. "
        "Afterwards all brokers are killed and started again and everything is read back: every acknowledged record, "
        "none twice.",
        (
            PairedFigure("single_per_s", "single records", "/s", is_lower_better=False),
            PairedFigure("single_p99_ms", "… p99", "ms", is_lower_better=True, is_required=False),
            PairedFigure("single_cpu_us", "… CPU of all brokers", "µs/request", is_lower_better=True),
            PairedFigure("batched_per_s", "batches", "records/s", is_lower_better=False),
            PairedFigure("batched_cpu_ns", "… CPU of all brokers", "ns/record", is_lower_better=True),
        ),
        run_produce,
    ),
)
