"""Measure of stored batches over HTTP to a broker, which validates, stamps and syncs but does not decode them."""

from bench import load, probes, service
from bench.flushes import count_flushes
from bench.load import CONNECTIONS, SECONDS
from bench.measure import Figure, Measure, Values, Workspace
from bench.read_back import BATCHES_TYPE, require_stored
from bench.samples import RECORDS_PER_BATCH, VALUE_BYTES, batches

_TOPIC = "bench"
_DIFFERENT_BATCHES = 200


def run(workspace: Workspace) -> Values:
    pool = batches(_DIFFERENT_BATCHES)
    path = f"/topics/{_TOPIC}/partitions/0"
    with workspace.directory() as directory, service.broker(directory / "data") as server:
        server.create_topic(_TOPIC)
        headers = {"Content-Type": BATCHES_TYPE}
        requests = (load.raw_request("POST", server.port, path, headers, batch) for batch in pool)
        file = load.write_requests(directory / "requests", requests)
        cpu_before = probes.cpu_seconds(server.pid)
        with count_flushes(directory) as flushes:
            seen = load.run_wrk("replay.lua", server.url, str(file))
        cpu_s = probes.cpu_seconds(server.pid) - cpu_before
        stored = require_stored(server, _TOPIC, seen.requests, RECORDS_PER_BATCH, all_differ=False)
    return {
        "records_per_s": seen.requests_per_s * RECORDS_PER_BATCH,
        "mb_per_s": seen.requests_per_s * len(pool[0]) / 1e6,
        "p99_ms": seen.p99_ms,
        "broker_cpu_share": cpu_s / seen.seconds,
        **stored,
        **flushes.require_at_least(seen.requests / CONNECTIONS),
    }


MEASURES = (
    Measure(
        "http-batches-in",
        "HTTP: stored batches in, durable",
        f"wrk, {CONNECTIONS} in flight, {SECONDS} s, POST of one batch a request ({RECORDS_PER_BATCH:,} records of "
        f"{VALUE_BYTES} random bytes, uncompressed; {_DIFFERENT_BATCHES} different batches in turn, since a script "
        "cannot make CRCs). An answer means synced. Afterwards the broker is killed, started again and read back: "
        "every acknowledged batch has to be there, sound, and not more than were sent. The device has to have been "
        f"flushed at least once for every {CONNECTIONS} requests.",
        (
            Figure("records_per_s", "records", "records/s", at_least=1_000_000),
            Figure("mb_per_s", "… of batches", "MB/s"),
            Figure("p99_ms", "… p99 of a request", "ms"),
        ),
        run,
    ),
)
