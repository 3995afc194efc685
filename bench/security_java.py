"""Measure of the cost of security for Kafka's own Java producer, whose TLS records are full (16 KiB).

Java and Kafka's jars are installed as for `python -m clients`."""

from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Final

from bench.cluster_http import TOPIC
from bench.measure import Figure, Measure, MeasureFailed, Values, Workspace
from bench.race.accounting import run_generator
from bench.secured_cluster import ORDER, PASSWORD, USER, SecuredCluster, Security, secured_cluster
from clients import packages
from clients.java import LOADING, java

RECORDS: Final = 300_000
RECORD_BYTES: Final = 1024
_LOGIN: Final = (
    f'org.apache.kafka.common.security.scram.ScramLoginModule required username="{USER}" password="{PASSWORD}";'
)


def run(workspace: Workspace) -> Values:
    """Load three clusters in turn, twice each, by `kafka-producer-perf-test`."""
    try:
        libraries = packages.jars("kafka-3.9")
    except packages.NotInstalled as missing:
        raise MeasureFailed(str(missing)) from missing
    rates: dict[Security, list[float]] = {each: [] for each in Security}
    with workspace.directory() as directory, ExitStack() as running:
        settings: dict[Security, Path] = {}
        for security in Security:
            workspace.show_stage(f"start {security.value}")
            place = running.enter_context(secured_cluster(directory / security.name, security))
            settings[security] = directory / f"{security.name}.properties"
            settings[security].write_text("".join(f"{name}={value}\n" for name, value in _settings(place).items()))
        for security in ORDER:
            workspace.show_stage(security.value)
            shape = ("--num-records", str(RECORDS), "--record-size", str(RECORD_BYTES), "--throughput", "-1")
            arguments = ("--topic", TOPIC, *shape, "--producer.config", str(settings[security]))
            tool = java(libraries, "org.apache.kafka.tools.ProducerPerformance", *arguments, flags=LOADING)
            summary = run_generator(tool).splitlines()[-1]  # "…, 20000.0 records/sec (19.53 MB/sec), …"
            rates[security].append(float(summary.partition("(")[2].split()[0]))
    plain = median(rates[Security.NONE])
    return {
        "tls": median(rates[Security.TLS]) / plain,
        "permissions": median(rates[Security.PERMISSIONS]) / plain,
        "plain_mib_per_s": plain,
    }


def _settings(place: SecuredCluster) -> dict[str, str]:
    """Return the producer's settings for a cluster; Java names the login and the authority unlike librdkafka."""
    names = ("bootstrap.servers", "security.protocol", "sasl.mechanism")
    settings = {name: value for name, value in place.kafka_settings.items() if name in names}
    settings |= {"acks": "all", "batch.size": "65536", "linger.ms": "5"}
    if place.security is not Security.NONE:
        settings["sasl.jaas.config"] = _LOGIN
    if place.cluster.security is not None:
        settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": place.cluster.security.ca}
    return settings


MEASURES: Final = (
    Measure(
        "security-java",
        "three brokers: Kafka's Java producer, with security ÷ without",
        "Three clusters of three `raftlog serve` run at once: without security; with users and permissions; with TLS "
        "on every address, users and permissions. One after another, each twice, in an order in which a drift "
        f"cancels, gets {RECORDS:,} records of {RECORD_BYTES:,} bytes from `kafka-producer-perf-test` of Kafka 3.9 "
        "with acks=all, batch.size=65536 and linger.ms=5 (SCRAM-SHA-256).",
        (
            Figure("tls", "TLS, SCRAM and permissions ÷ plain", "×", at_least=0.8),
            Figure("permissions", "SCRAM and permissions ÷ plain", "×", at_least=0.9),
            Figure("plain_mib_per_s", "plain", "MiB/s"),
        ),
        run,
    ),
)
