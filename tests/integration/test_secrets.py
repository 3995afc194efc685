"""No secret in anything that a broker writes or shows: a whole run is searched for every secret used in it.

Searched are logs at the lowest level, answers, metrics, settings, command lines, environments, stack dumps of killed
processes, and all files of the data directories."""

import base64
import http.client
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from raftlog.client.addresses import host_of
from raftlog.client.sync import BrokerClient
from raftlog.security.client_tls import ClientTlsFiles, client_context
from raftlog.testing import Cluster, process_start
from tests.security.tokens import AUDIENCE, ISSUER, TokenIssuer

ISSUING: Final = TokenIssuer()
PASSWORDS: Final = {
    "alice": "correct-horse-battery-1",
    "changed": "staple-of-alice-2",
    "bob": "password-of-bob-3",
    "wrong": "a-typing-error-of-alice-4",
    "unknown": "for-an-unknown-user-5",
    "refused": "in-a-refused-body-6",
    "malformed": "in-a-malformed-body-7",
    "kafka": "altered-by-kafka-8",
}


class Run:
    """Secure cluster, and everything that it showed."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        assert cluster.security is not None
        self.security = cluster.security
        self.shown: dict[str, bytes] = {}
        self.last_body = b""
        self._context = client_context(ClientTlsFiles(self.security.ca))

    def request(self, method: str, path: str, authorization: str, body: bytes | None = None) -> int:
        """Send a request to the first broker, and keep the whole answer; return its status."""
        host, _, port = host_of(self.cluster.nodes[1].http).rpartition(":")
        connection = http.client.HTTPSConnection(host, int(port), timeout=20, context=self._context)
        try:
            headers = {"Authorization": authorization, "Content-Type": "application/json"}
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            name = f"answer {len(self.shown)} to {method} {path}"
            self.last_body = answer.read()
            self.shown[name] = str(answer.getheaders()).encode() + self.last_body
            return answer.status
        finally:
            connection.close()

    @property
    def admin(self) -> str:
        return basic(self.security.user, self.security.password())

    def login_by_kafka(self, mechanism: str, user: str, password: str) -> bool:
        """Return whether a login by librdkafka succeeds."""
        refusals: list[str] = []
        settings = {
            "bootstrap.servers": self.cluster.nodes[1].kafka,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": self.security.ca,
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password,
            "error_cb": lambda error: refusals.append(error.name()),
        }
        client = AdminClient(settings)
        until = time.monotonic() + 20
        while time.monotonic() < until:
            try:
                client.list_topics(timeout=1)
            except confluent_kafka.KafkaException:
                client.poll(0.1)
                if "_AUTHENTICATION" in refusals:
                    return False
            else:
                if user == self.security.user:
                    self._alter_scram(client)
                return True
        raise AssertionError(f"no answer to {mechanism} of {user}: {refusals}")

    def _alter_scram(self, client: AdminClient) -> None:
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
        change = UserScramCredentialUpsertion("carol", info, PASSWORDS["kafka"].encode(), b"salt of carol")
        for done in client.alter_user_scram_credentials([change]).values():
            done.result(20)

    def collect_processes(self) -> None:
        """Keep what the kernel shows of the processes."""
        for number, node in self.cluster.nodes.items():
            for file in ("cmdline", "comm", "environ"):
                self.shown[f"{file} of node {number}"] = Path(f"/proc/{node.pid}/{file}").read_bytes()

    def collect_files(self) -> None:
        """Keep the logs and all files of the data directories."""
        for number in self.cluster.nodes:
            self.shown[f"log of node {number}"] = self.cluster.logs()[number].encode()
            for path in (self.cluster.directory / str(number)).rglob("*"):
                if path.is_file():
                    self.shown[str(path)] = path.read_bytes()


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Start brokers in new interpreters, whose command lines and environments are those of `raftlog serve`."""
    monkeypatch.setattr(process_start, "start", subprocess.Popen)
    keys = tmp_path / "keys.json"
    keys.write_bytes(ISSUING.key_set())
    flags = ["--log-level", "debug", "--oauth-jwks", str(keys), "--oauth-issuer", ISSUER, "--oauth-audience", AUDIENCE]
    faults = {"PYTHONFAULTHANDLER": "1", "PYTHONASYNCIODEBUG": "1"}
    with Cluster(
        3,
        secure=True,
        with_cuts=False,
        data_dir=tmp_path / "cluster",
        serve_flags=flags,
        environment=lambda number: faults if number == 3 else {},
    ) as cluster:
        yield Run(cluster)


def paths_of(document: dict[str, Any]) -> list[str]:
    """Return all paths of GET whose arguments are known, with values."""
    values = {"cluster_id": "-", "cluster": "-", "topic": "orders", "partition": "0", "broker": "1", "group": "g"}
    found = []
    for path, methods in document["paths"].items():
        names = re.findall(r"\{(\w+)\}", path)
        if "get" in methods and "consumers" not in path and all(name in values for name in names):
            found.append(re.sub(r"\{(\w+)\}", lambda match: values[match[1]], path))
    return found


def use_everything(run: Run) -> list[str]:
    """Log in and change users in all ways; return the tokens that were sent."""
    expires = time.time() + 300
    tokens = [
        ISSUING.token("bob", expires_at=expires),
        ISSUING.token("bob", expires_at=time.time() - 300),
        ISSUING.token("bob", expires_at=expires, aud="another"),
    ]
    users, password = "/v1/security/users", "/v1/security/users/alice/password"
    create = json.dumps({"name": "alice", "password": PASSWORDS["alice"]}).encode()
    assert run.request("POST", users, run.admin, create) == 204
    assert run.request("POST", users, run.admin, create) == 409
    bob = json.dumps({"name": "bob", "password": PASSWORDS["bob"]}).encode()
    assert run.request("POST", users, run.admin, bob) == 204
    refused = json.dumps({"name": "bad name\x00", "password": PASSWORDS["refused"]}).encode()
    assert run.request("POST", users, run.admin, refused) == 400
    for body in (
        b'{"name": "x", "password": ["%b"]}' % PASSWORDS["malformed"].encode(),
        b'{"name": "x", "password": "%b"' % PASSWORDS["malformed"].encode(),
    ):
        assert run.request("POST", users, run.admin, body) in (400, 422)
    changed = json.dumps({"password": PASSWORDS["changed"]}).encode()
    assert run.request("PUT", password, run.admin, changed) == 204
    assert run.request("GET", "/topics", basic("alice", PASSWORDS["changed"])) == 200
    assert run.request("GET", "/topics", basic("alice", PASSWORDS["wrong"])) == 401
    assert run.request("GET", "/topics", basic("nobody", PASSWORDS["unknown"])) == 401
    assert run.request("GET", "/topics", f"Basic {PASSWORDS['wrong']}") == 401
    for token, status in zip(tokens, (200, 401, 401), strict=True):
        assert run.request("GET", "/topics", f"Bearer {token}") == status
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
        assert run.login_by_kafka(mechanism, "alice", PASSWORDS["changed"])
        assert not run.login_by_kafka(mechanism, "alice", PASSWORDS["wrong"])
    assert run.login_by_kafka("SCRAM-SHA-256", run.security.user, run.security.password())
    assert run.login_by_kafka("SCRAM-SHA-256", "carol", PASSWORDS["kafka"])
    return tokens


def test_a_whole_run_shows_no_secret(run: Run) -> None:
    cluster = run.cluster
    with BrokerClient(cluster.access) as client:
        client.create_topic("orders", 1, 3)
    tokens = use_everything(run)
    assert run.request("GET", "/openapi.json", run.admin) == 200
    document = json.loads(run.last_body)
    statuses = {path: run.request("GET", path, run.admin) for path in paths_of(document)}
    assert statuses["/metrics"] == statuses["/v1/cluster_config"] == 200
    assert len([path for path, status in statuses.items() if status == 200]) > 20
    run.collect_processes()
    assert resource_limit(cluster.nodes[1].pid, "Max core file size") == "0"
    assert b"node-1.key" in run.shown["cmdline of node 1"], "the paths of keys may be seen"
    cluster.nodes[2].stop()
    os.kill(cluster.nodes[3].pid, signal.SIGABRT)
    assert cluster.nodes[3].wait() != 0
    cluster.nodes[1].kill()
    run.collect_files()
    assert b"Fatal Python error: Aborted" in run.shown["log of node 3"]
    assert b"authentication_failed" in run.shown["log of node 1"]

    secrets = {**PASSWORDS, "first user": run.security.password()}
    needles = {f"password {name}": text.encode() for name, text in secrets.items()}
    for user, text in (("alice", PASSWORDS["changed"]), (run.security.user, run.security.password())):
        needles[f"login of {user}"] = basic(user, text).removeprefix("Basic ").encode()
    needles |= {f"token {number}": token.rpartition(".")[2].encode() for number, token in enumerate(tokens)}
    needles["cluster secret"] = Path(cluster.secret_path).read_bytes().strip()
    for key in run.security.directory.glob("*.key"):
        needles[key.name] = key.read_bytes().splitlines()[1]
    found = [(name, place) for name, needle in needles.items() for place, text in run.shown.items() if needle in text]
    assert found == [], found
    assert len(needles) > 15


def resource_limit(pid: int, name: str) -> str:
    """Return the soft limit of a process."""
    for line in Path(f"/proc/{pid}/limits").read_text().splitlines():
        if line.startswith(name):
            return line.removeprefix(name).split()[0]
    raise AssertionError(f"no limit {name}")
