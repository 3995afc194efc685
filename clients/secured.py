"""Checks of clients against a cluster with TLS and logins (`raftlog dev --secure`).

`logins` uses PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512, and requires that wrong passwords, unknown users and another
authority are refused. `load` runs over TLS with SCRAM while a leader is killed and a broker restarts."""

import subprocess
from collections.abc import Sequence
from typing import Final

from clients import packages, programs
from clients.checks import RUN_S_MAX, Check, CheckFailed, Program, require
from clients.faults import kill_leader, restart_broker
from clients.numbered_lines import NumberedLines
from clients.programs import Command
from clients.secure_cluster import SecureCluster

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_KCAT: Final = "kcat with TLS"
_FAULTS: Final = (kill_leader, restart_broker)
_NAMED: Final = "leader kill, broker restart"
_LINES: Final = 100
_PER_S: Final = 500
_REFUSED_MS: Final = 20_000
"""Milliseconds after which kcat drops a record that it cannot send, and ends."""


def _environment(cluster: SecureCluster) -> dict[str, str]:
    """Return the environment variables of a program whose clients log in."""
    return {
        "BOOTSTRAP": cluster.kafka,
        "MECHANISM": MECHANISMS[1],
        "CA": cluster.ca,
        "WRONG_CA": cluster.wrong_ca,
        "LOGIN": cluster.user,
        "PASSWORD": cluster.password,
    }


def _check_logins(client: str, command: Command) -> Check:
    """Return a check that logs in by each mechanism over TLS."""

    def run(cluster: SecureCluster) -> str:
        program = Program([*command(), "logins", f"{client.split()[0]}-logins"], environment=_environment(cluster))
        try:
            return program.end().splitlines()[-1]
        finally:
            program.kill()

    return Check(client, "logins", "", run, SecureCluster)


def _check_load(client: str, command: Command) -> Check:
    """Return a check that runs a load over TLS under faults."""

    def run(cluster: SecureCluster) -> str:
        topic = f"{client.split()[0]}-load"
        return programs.run_load([*command(), "load", topic], _environment(cluster), cluster, topic, _FAULTS)

    return Check(client, "load", _NAMED, run, SecureCluster)


def _kcat(cluster: SecureCluster, mechanism: str, *flags: str, **changed: str) -> list[str]:
    """Return the command line of kcat with TLS and a login; `changed` replaces `user`, `password` or `ca`."""
    given = {"user": cluster.user, "password": cluster.password, "ca": cluster.ca, **changed}
    settings = {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": given["ca"],
        "sasl.mechanism": mechanism,
        "sasl.username": given["user"],
        "sasl.password": given["password"],
    }
    options = [text for name, value in settings.items() for text in ("-X", f"{name}={value}")]
    return [packages.program("kcat"), "-b", cluster.kafka, *options, *flags]


def _run_kcat(command: Sequence[str], stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=RUN_S_MAX, check=False)


def check_kcat_logins(cluster: SecureCluster) -> str:
    """Write and read with each mechanism; wrong passwords, unknown users and another authority are refused."""
    for mechanism in MECHANISMS:
        topic = f"kcat-{mechanism.lower()}"
        cluster.create_topic(topic, 1)
        lines = "".join(f"{number}\n" for number in range(_LINES))
        written = _run_kcat(_kcat(cluster, mechanism, "-P", "-t", topic), lines)
        require(written.returncode == 0, f"{mechanism}: {written.stderr}")
        read = _run_kcat(_kcat(cluster, mechanism, "-C", "-t", topic, "-o", "beginning", "-c", str(_LINES), "-q"))
        require(read.stdout == lines, f"{mechanism}: {len(read.stdout.splitlines())} lines read; {read.stderr}")
        _require_refusal(cluster, mechanism, topic, "authentication", password="wrong")
        _require_refusal(cluster, mechanism, topic, "authentication", user="nobody")
        _require_refusal(cluster, mechanism, topic, "certificate verify failed", ca=cluster.wrong_ca)
        stored = _run_kcat(_kcat(cluster, mechanism, "-C", "-t", topic, "-o", "beginning", "-e", "-q"))
        require(stored.stdout == lines, f"{mechanism}: a refused client has written")
    return f"{', '.join(MECHANISMS)}; wrong password, unknown user and wrong authority refused"


def _require_refusal(cluster: SecureCluster, mechanism: str, topic: str, reason: str, **changed: str) -> None:
    """Check that kcat is refused for `reason` when the properties `changed` are wrong."""
    limit = ("-X", f"message.timeout.ms={_REFUSED_MS}")
    refused = _run_kcat(_kcat(cluster, mechanism, "-P", "-t", topic, *limit, **changed), "refused\n")
    about = f"{mechanism} with {', '.join(changed)}: {refused.returncode} {refused.stderr}"
    require(refused.returncode != 0 and reason in refused.stderr.lower(), about)


def check_kcat_load(cluster: SecureCluster) -> str:
    """Write lines continuously by an idempotent kcat under faults; each is stored once, in order."""
    topic = "kcat-load"
    cluster.create_topic(topic, 1)
    producer = Program(_kcat(cluster, MECHANISMS[1], "-P", "-t", topic, "-X", "enable.idempotence=true"), given=None)
    try:
        lines = NumberedLines(producer.write, str, _PER_S)
        for fault in _FAULTS:
            fault(cluster, topic)
        count = lines.stop()
        producer.finish()
        producer.end()
    finally:
        producer.kill()
    read = _run_kcat(_kcat(cluster, MECHANISMS[2], "-C", "-t", topic, "-o", "beginning", "-e", "-q"))
    if read.returncode:
        raise CheckFailed(f"kcat does not read: {read.stderr}")
    found = [int(line) for line in read.stdout.splitlines()]
    require(found == list(range(count)), f"{count} lines written, {len(found)} read, {len(set(found))} different")
    return f"{count} lines, each once and in order"


def _clients() -> tuple[Check, ...]:
    """Return the checks of all clients over TLS."""
    made = []
    for client, command in (
        ("java-3.9 with TLS", programs.java_command("kafka-3.9")),
        ("java-4.1 with TLS", programs.java_command("kafka-clients-4")),
        ("franz-go with TLS", programs.franz_command),
    ):
        made += [_check_logins(client, command), _check_load(client, command)]
    return tuple(made)


CHECKS: Final = (
    *_clients(),
    Check(_KCAT, "logins", "", check_kcat_logins, SecureCluster),
    Check(_KCAT, "load", _NAMED, check_kcat_load, SecureCluster),
)
