"""Measures of the cost of security: batches with and without TLS and permissions, and latency during logins."""

import time
from contextlib import ExitStack
from importlib import import_module
from statistics import median
from typing import Any, Final

from bench import kafka_batches, load, open_loop, scram_logins
from bench.child import command_for, run_in_child
from bench.cluster_http import TOPIC
from bench.measure import Figure, Measure, MeasureFailed, Values, Workspace, require
from bench.read_back import BATCHES_TYPE
from bench.samples import VALUE_BYTES, batches
from bench.secured_cluster import ORDER, PASSWORD, USER, SecuredCluster, Security, secured_cluster
from bench.service import HOST

BATCH_RECORDS: Final = 612
"""Records of 100 bytes in a batch of 64 KiB."""
IN_FLIGHT: Final = 16
SECONDS: Final = 4
KAFKA_VALUE_BYTES: Final = 1_000
KAFKA_S: Final = 4.0
KAFKA_WARM_S: Final = 1.0
OFFERED_PER_S: Final = 500
LOGINS: Final = 1_000
LOGINS_S: Final = 10.0
_QUEUED_MAX: Final = 2_000
_FLUSH_S_MAX: Final = 30.0
_DIFFERENT_BATCHES: Final = 100


# batches


def produce_by_kafka(settings: dict[str, str], topic: str, warm_s: float, seconds: float) -> dict[str, Any]:
    """Send records by librdkafka in batches of 64 KiB as fast as the brokers take them; in a child process."""
    own = {"batch.size": 1 << 16, "linger.ms": 5, "queue.buffering.max.messages": _QUEUED_MAX}
    producer = import_module("confluent_kafka").Producer({**settings, **own})
    delivered = failed = 0
    value = b"x" * KAFKA_VALUE_BYTES

    def count(error: object, message: object) -> None:
        """Count a delivery report of the Kafka client as delivered or failed."""
        nonlocal delivered, failed
        failed += error is not None
        delivered += error is None

    producer.produce(topic, value, partition=0, on_delivery=count)
    producer.flush(_FLUSH_S_MAX)  # logins and metadata are no part of the time
    before, begin = 0, time.perf_counter() + warm_s
    is_warm = False
    while (now := time.perf_counter()) < begin + seconds:
        if not is_warm and now >= begin:
            is_warm, before = True, delivered
        try:
            producer.produce(topic, value, partition=0, on_delivery=count)
        except BufferError:
            producer.poll(0.01)
        else:
            producer.poll(0)
    counted = delivered - before
    if producer.flush(_FLUSH_S_MAX) or failed or not counted:
        raise MeasureFailed(f"{failed} records failed, {len(producer)} are not delivered, {counted} were in time")
    return {"mb_per_s": counted * KAFKA_VALUE_BYTES / seconds / 1e6, "delivered": delivered}


def run_batches(workspace: Workspace) -> Values:
    """Load three clusters in turn, twice each, over HTTP and then over the Kafka protocol."""
    pool = batches(_DIFFERENT_BATCHES, BATCH_RECORDS)
    http: dict[Security, list[float]] = {each: [] for each in Security}
    kafka: dict[Security, list[float]] = {each: [] for each in Security}
    prepared: dict[Security, list[float]] = {each: [] for each in Security}
    acknowledged = dict.fromkeys(Security, 0)
    with workspace.directory() as directory, ExitStack() as running:
        places: dict[Security, SecuredCluster] = {}
        for security in Security:
            workspace.show_stage(f"start {security.value}")
            places[security] = running.enter_context(secured_cluster(directory / security.name, security))
        for security in ORDER:
            workspace.show_stage(security.value)
            place = places[security]
            headers = {"Content-Type": BATCHES_TYPE, **place.headers}
            path = f"/topics/{TOPIC}/partitions/0"
            requests = (load.raw_request("POST", place.port, path, headers, batch) for batch in pool)
            file = load.write_requests(directory / f"requests-{security.name}", requests)
            url = f"{'https' if security is Security.TLS else 'http'}://{HOST}:{place.port}"
            seen = load.run_wrk("replay.lua", url, str(file), seconds=SECONDS, connections=IN_FLIGHT)
            http[security].append(seen.requests_per_s * len(pool[0]) / 1e6)
            acknowledged[security] += seen.requests * BATCH_RECORDS
        for security in ORDER:
            settings = places[security].kafka_settings
            given = {"settings": settings, "topic": TOPIC, "warm_s": KAFKA_WARM_S, "seconds": KAFKA_S}
            sent = run_in_child(produce_by_kafka, **given)
            kafka[security].append(sent["mb_per_s"])
            acknowledged[security] += sent["delivered"]
        for security in ORDER:
            workspace.show_stage(f"{security.value}, prepared batches")
            place = places[security]
            given = {"topic": TOPIC, "in_flight": IN_FLIGHT, "records": BATCH_RECORDS, "login": place.kafka_login}
            times = {"warm_s": KAFKA_WARM_S, "seconds": KAFKA_S}
            sent = run_in_child(kafka_batches.produce, address=place.leader.kafka, **given, **times)
            prepared[security].append(sent["batches_per_s"] * len(pool[0]) / 1e6)
            acknowledged[security] += sent["batches"] * BATCH_RECORDS
        for security, place in places.items():
            end, most = place.end_offset(), 2 * IN_FLIGHT * BATCH_RECORDS
            is_sound = acknowledged[security] <= end <= acknowledged[security] + most
            require(is_sound, f"{acknowledged[security]} acknowledged {security.value}, and {end} are there")
    plain, kafka_plain = median(http[Security.NONE]), median(kafka[Security.NONE])
    prepared_plain = median(prepared[Security.NONE])
    return {
        "tls": median(http[Security.TLS]) / plain,
        "permissions": median(http[Security.PERMISSIONS]) / plain,
        "kafka_tls": median(kafka[Security.TLS]) / kafka_plain,
        "kafka_permissions": median(kafka[Security.PERMISSIONS]) / kafka_plain,
        "prepared_tls": median(prepared[Security.TLS]) / prepared_plain,
        "prepared_permissions": median(prepared[Security.PERMISSIONS]) / prepared_plain,
        "plain_mb_per_s": plain,
        "kafka_plain_mb_per_s": kafka_plain,
        "prepared_plain_mb_per_s": prepared_plain,
    }


# logins


def run_logins(workspace: Workspace) -> Values:
    """Offer writes twice without and twice with logins beside them; return the ratio of the p99."""
    quiet: list[dict[str, Any]] = []
    beside: list[dict[str, Any]] = []
    took: list[float] = []
    with workspace.directory() as directory, secured_cluster(directory / "c", Security.PERMISSIONS) as place:
        headers = "".join(f"{name}: {value}\r\n" for name, value in place.headers.items())
        offered = {"ports": [place.port], "topic": TOPIC, "per_s": OFFERED_PER_S, "headers": headers}
        run_in_child(open_loop.offer, **offered, seconds=2.0)
        logins = {"address": place.leader.kafka, "user": USER, "password": PASSWORD}
        for has_logins in (False, True, True, False):
            workspace.show_stage("with logins" if has_logins else "quiet")
            if not has_logins:
                quiet.append(run_in_child(open_loop.offer, **offered, seconds=LOGINS_S))
                continue
            with scram_logins.Logins(command_for(scram_logins.log_in), **logins, count=LOGINS, seconds=LOGINS_S) as run:
                beside.append(run_in_child(open_loop.offer, **offered, seconds=LOGINS_S))
                took.append(run.end()["p99_ms"])
    for result in (*quiet, *beside):
        require(result["succeeded"] == result["offered"], f"{result['succeeded']} of {result['offered']} writes")
    quiet_p99, beside_p99 = (median([each["p99_ms"] for each in results]) for results in (quiet, beside))
    return {
        "p99_ratio": beside_p99 / quiet_p99,
        "quiet_p99_ms": quiet_p99,
        "beside_p99_ms": beside_p99,
        "login_p99_ms": median(took),
    }


MEASURES = (
    Measure(
        "security-batches",
        "three brokers: batches of 64 KiB, with security ÷ without",
        f"Three clusters of three `raftlog serve` run at once: without security; with users and permissions; with TLS "
        f"on every address, users and permissions. One after another, each twice, in an order in which a drift "
        f"cancels, gets {IN_FLIGHT} connections of wrk with a batch of {BATCH_RECORDS} × {VALUE_BYTES} random bytes a "
        f"request (Basic) for {SECONDS} s, then one librdkafka producer (SCRAM-SHA-256) that fills batches of 64 KiB "
        f"for {KAFKA_S:g} s, and then one connection with {IN_FLIGHT} prepared Produce requests of such a batch in "
        "flight, so that the client has little work. The user is no superuser; its entry is one of 101. In the end "
        "each log has the acknowledged records.",
        (
            Figure("tls", "HTTP: TLS, Basic and permissions ÷ plain", "×", at_least=0.8),
            Figure("permissions", "HTTP: Basic and permissions ÷ plain", "×", at_least=0.9),
            Figure("kafka_tls", "Kafka: TLS, SCRAM and permissions ÷ plain", "×", at_least=0.8),
            Figure("kafka_permissions", "Kafka: SCRAM and permissions ÷ plain", "×", at_least=0.9),
            Figure("prepared_tls", "Kafka, prepared batches: TLS, SCRAM and permissions ÷ plain", "×", at_least=0.8),
            Figure("prepared_permissions", "Kafka, prepared batches: SCRAM and permissions ÷ plain", "×", at_least=0.9),
            Figure("plain_mb_per_s", "HTTP, plain", "MB/s"),
            Figure("kafka_plain_mb_per_s", "Kafka, plain", "MB/s"),
            Figure("prepared_plain_mb_per_s", "Kafka, prepared batches, plain", "MB/s"),
        ),
        run_batches,
    ),
    Measure(
        "security-logins",
        f"three brokers: {LOGINS:,} logins in {LOGINS_S:g} s beside {OFFERED_PER_S} writes/s",
        f"{OFFERED_PER_S} single records a second are offered to the leader over HTTP for {LOGINS_S:g} s, twice alone "
        f"and twice while another process opens {LOGINS:,} connections to the leader's Kafka listener, evenly spread, "
        "and logs in on each with SCRAM-SHA-256. That process salts its password once, so that the measure has the "
        "work of the broker.",
        (
            Figure("p99_ratio", "p99 of the writes with logins ÷ without", "×", at_most=2),
            Figure("quiet_p99_ms", "… without", "ms"),
            Figure("beside_p99_ms", "… with logins", "ms"),
            Figure("login_p99_ms", "p99 of a login", "ms"),
        ),
        run_logins,
    ),
)
