"""Measures of JSON produce over HTTP: one record and a hundred per request, each answered after its sync."""

from pathlib import Path

from bench import load, probes, service
from bench.flushes import count_flushes
from bench.load import CONNECTIONS, SECONDS, Load
from bench.measure import Figure, Measure, Values, Workspace
from bench.read_back import require_stored

_TOPIC = "bench"
_PATH = f"/topics/{_TOPIC}"
_MANY = 100


def load_echo(records_per_request: int) -> Load:
    """Run the load against aiohttp alone."""
    with service.echo_server() as server:
        return load.run_wrk("produce.lua", server.url, _PATH, str(records_per_request))


def load_broker(data_dir: Path, records_per_request: int) -> tuple[Load, dict[str, float | str]]:
    """Load a new broker, then check that it stores the acknowledged records."""
    with service.broker(data_dir) as server:
        server.create_topic(_TOPIC)
        cpu_before = probes.cpu_seconds(server.pid)
        with count_flushes(data_dir) as flushes:
            seen = load.run_wrk("produce.lua", server.url, _PATH, str(records_per_request))
        cpu_s = probes.cpu_seconds(server.pid) - cpu_before
        stored = require_stored(server, _TOPIC, seen.requests, records_per_request)
    synced = flushes.require_at_least(seen.requests / CONNECTIONS)
    return seen, {"broker_cpu_share": cpu_s / seen.seconds, **stored, **synced}


def run_single(workspace: Workspace) -> Values:
    plain = load_echo(1)
    with workspace.directory() as directory:
        seen, facts = load_broker(directory, 1)
    return {
        "requests_per_s": seen.requests_per_s,
        "p50_ms": seen.p50_ms,
        "p99_ms": seen.p99_ms,
        "max_ms": seen.max_ms,
        "echo_per_s": plain.requests_per_s,
        "echo_p99_ms": plain.p99_ms,
        "of_echo": seen.requests_per_s / plain.requests_per_s,
        **facts,
    }


def run_many(workspace: Workspace) -> Values:
    plain = load_echo(_MANY)
    with workspace.directory() as directory:
        seen, facts = load_broker(directory, _MANY)
    return {
        "records_per_s": seen.requests_per_s * _MANY,
        "p99_ms": seen.p99_ms,
        "echo_records_per_s": plain.requests_per_s * _MANY,
        "of_echo": seen.requests_per_s / plain.requests_per_s,
        **facts,
    }


_CHECKS = (
    "Any error fails the run. Afterwards the broker is killed, started again and read back: every acknowledged record "
    "has to be there, none twice, all batches sound; and the device has to have been flushed at least once for every "
    f"{CONNECTIONS} requests, as one sync cannot answer more."
)

MEASURES = (
    Measure(
        "http-produce",
        "HTTP: single-record JSON produce, durable",
        f"wrk, 1 thread, {CONNECTIONS} connections with one request in flight each, {SECONDS} s, POST {_PATH} with one "
        "record of 100 characters, all different (a counter). The broker runs with its defaults: an answer means "
        "synced. Before it, in the same run, the same load on aiohttp alone that parses the JSON and answers it. "
        + _CHECKS,
        (
            Figure("requests_per_s", "requests (= records)", "/s", at_least=12_000),
            Figure("p99_ms", "… p99", "ms", at_most=15),
            Figure("p50_ms", "… p50", "ms"),
            Figure("echo_per_s", "aiohttp alone, JSON echo", "/s"),
            Figure("of_echo", "broker ÷ echo", "×"),
        ),
        run_single,
    ),
    Measure(
        "http-produce-100",
        "HTTP: 100-record JSON produce, durable",
        f"The same with {_MANY} records a request. " + _CHECKS,
        (
            Figure("records_per_s", "records", "records/s", at_least=150_000),
            Figure("p99_ms", "… p99 of a request", "ms"),
            Figure("echo_records_per_s", "aiohttp alone, JSON echo", "records/s"),
            Figure("of_echo", "broker ÷ echo", "×"),
        ),
        run_many,
    ),
)
