"""Measure of `verify` for the three replicas of a stopped cluster."""

from pathlib import Path
from typing import Any

from bench.child import run_in_child
from bench.cluster_http import TOPIC
from bench.measure import Figure, Measure, Values, Workspace, require
from bench.pipeline.stage import PARTITIONS, driver_memory, filled_cluster, measure_time, session, start_workers, stop
from bench.samples import VALUE_BYTES
from raftlog.pipeline import verify

MIB = 2_048
"""Size, in MiB, of all three replicas together."""
REPLICAS = 3
RECORD_BYTES = VALUE_BYTES + 8
"""Approximate size of a stored record, with its lengths and deltas."""
SIZES = {"small": 16 << 10, "large": 1 << 20}
"""Bytes of a batch."""


def check(scratch: str, paths: list[str]) -> dict[str, Any]:
    """Verify the replicas in these data directories; in a child process."""
    with session(scratch) as spark:
        start_workers(spark)
        size = sum(file.stat().st_size for path in paths for file in Path(path).glob(f"{TOPIC}/*/*.log"))
        with measure_time(size) as taken:
            report = verify(spark, paths)
        require(report.is_sound, f"the replicas of a healthy cluster are not sound: {report.as_json()}")
        return {"mb_per_s": taken["per_s"] / 1e6, "cpu_s_per_gb": taken["cpu_us"] * 1e3, **taken, **driver_memory()}


def run(workspace: Workspace) -> Values:
    records = workspace.bulk_mib(MIB) * (1 << 20) // REPLICAS // RECORD_BYTES
    values: dict[str, Any] = {}
    for name, batch_bytes in SIZES.items():
        with (
            workspace.directory() as directory,
            filled_cluster(workspace, directory, records, batch_records=batch_bytes // RECORD_BYTES) as cluster,
        ):
            paths = stop(cluster)
            workspace.show_stage(f"verifying, {name} batches")
            done = run_in_child(check, scratch=str(directory / "scratch"), paths=paths)
            values |= {f"{name}_{key}": value for key, value in done.items()}
    return values


MEASURES = (
    Measure(
        "pipeline-verify",
        f"Spark, verify over three replicas, {MIB / 1024:g} GiB in all",
        f"A topic of {PARTITIONS} partitions is written to three brokers, in batches of 16 KiB, then in another "
        "cluster of 1 MiB. The brokers are stopped; timed is `verify` over their three data directories, from page "
        "cache as far as there is room: every CRC, header against index, and the replicas' bytes with each other.",
        (
            Figure("small_mb_per_s", "batches of 16 KiB", "MB/s", at_least=600),
            Figure("large_mb_per_s", "batches of 1 MiB", "MB/s", at_least=600),
            Figure("small_cpu_s_per_gb", "batches of 16 KiB: CPU of Spark", "s/GB"),
            Figure("large_cpu_s_per_gb", "batches of 1 MiB: CPU of Spark", "s/GB"),
            Figure("small_driver_python_mib", "driver, Python", "MiB"),
            Figure("small_driver_jvm_mib", "… its JVM, at most", "MiB"),
        ),
        run,
    ),
)
