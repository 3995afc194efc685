"""Clusters of three brokers with and without security, for measures of its cost; the load logs in as a plain user.

The user has one permission entry for the topic, beside `OTHER_ENTRIES` entries of other users. A superuser would not
show their cost, because it is allowed everything before any entry is looked at."""

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Any, Final

from bench.cluster_http import NODES, TOPIC
from bench.measure import MeasureFailed
from raftlog.client import BrokerAddresses
from raftlog.testing import BrokerFailed, Cluster
from raftlog.testing.http import ask

USER: Final = "bench"
PASSWORD: Final = "wire-of-the-bench"
OTHER_ENTRIES: Final = 100
_ADMIN: Final = "admin"
_ADMIN_PASSWORD: Final = "admin-of-the-bench"
_READY_S_MAX: Final = 60.0
_ANSWER_S_MAX: Final = 30.0


class Security(Enum):
    """Security of a cluster."""

    NONE = "without security"
    PERMISSIONS = "with users and permissions"
    TLS = "with TLS, users and permissions"


ORDER: Final = (Security.NONE, Security.PERMISSIONS, Security.TLS, Security.TLS, Security.PERMISSIONS, Security.NONE)
"""Order of runs, in which an even drift of the machine's speed cancels."""


class SecuredCluster:
    """Running cluster with the topic of the load, led by `leader`."""

    def __init__(self, cluster: Cluster, security: Security, access: BrokerAddresses) -> None:
        self.cluster, self.security, self._access = cluster, security, access
        if security is not Security.NONE:
            self._create_user()
        topic = {"topic_name": TOPIC, "partitions_count": 1, "replication_factor": NODES}
        self._request("POST", "/v3/clusters/-/topics", topic)
        self.leader = cluster.nodes[cluster.leader(TOPIC)]

    def _create_user(self) -> None:
        """Create the user of the load and its permission, among many permissions of other users."""
        self._request("POST", "/v1/security/users", {"name": USER, "password": PASSWORD})
        entry = {"resource_type": "TOPIC", "operation": "ALL", "permission": "ALLOW", "host": "*"}
        own = {**entry, "resource_name": TOPIC, "pattern_type": "LITERAL", "principal": f"User:{USER}"}
        others = [
            {**entry, "resource_name": f"other-{number}", "pattern_type": "PREFIXED", "principal": f"User:{number}"}
            for number in range(OTHER_ENTRIES)
        ]
        self._request("POST", "/v1/security/acls", {"acls": [own, *others]})

    def _request(self, method: str, path: str, body: object = None) -> Any:
        """Send a request as superuser, and return its JSON answer. Raises `MeasureFailed`."""
        address = self.cluster.addresses[0]
        status, answer = ask(address, path, method=method, body=body, timeout_s=_ANSWER_S_MAX, access=self._access)
        if status // 100 != 2:
            raise MeasureFailed(f"{method} {path} {self.security.value}: {status} {answer}")
        return answer

    @property
    def port(self) -> int:
        """HTTP port of the leader."""
        return int(self.leader.http.rpartition(":")[2])

    @property
    def headers(self) -> dict[str, str]:
        """Headers that log the user in; empty without security."""
        if self.security is Security.NONE:
            return {}
        return {"Authorization": f"Basic {base64.b64encode(f'{USER}:{PASSWORD}'.encode()).decode()}"}

    @property
    def kafka_settings(self) -> dict[str, str]:
        """Settings of librdkafka's clients."""
        settings = {"bootstrap.servers": self.cluster.kafka}
        if self.security is Security.NONE:
            return settings
        login = {"sasl.mechanism": "SCRAM-SHA-256", "sasl.username": USER, "sasl.password": PASSWORD}
        if self.security is Security.PERMISSIONS:
            return {**settings, **login, "security.protocol": "SASL_PLAINTEXT"}
        assert self.cluster.security is not None, "a cluster with TLS has an authority"
        return {**settings, **login, "security.protocol": "SASL_SSL", "ssl.ca.location": self.cluster.security.ca}

    @property
    def kafka_login(self) -> dict[str, str]:
        """`login` of `kafka_batches.produce`: user and password, and with TLS the path of the authority."""
        if self.security is Security.NONE:
            return {}
        login = {"user": USER, "password": PASSWORD}
        if self.security is Security.PERMISSIONS:
            return login
        assert self.cluster.security is not None, "a cluster with TLS has an authority"
        return {**login, "authority": self.cluster.security.ca}

    def end_offset(self) -> int:
        """Return the end offset of the topic's only partition."""
        return int(self._request("GET", f"/topics/{TOPIC}/partitions/0/offsets")["end_offset"])


@contextmanager
def secured_cluster(directory: Path, security: Security) -> Iterator[SecuredCluster]:
    """Run three brokers on loopback until the block ends, and kill them."""
    directory.mkdir()
    password_file = directory / "admin"
    password_file.write_text(f"{_ADMIN_PASSWORD}\n")
    flags = ["--log-level", "warning"]
    environment: dict[str, str] = {}
    if security is Security.PERMISSIONS:
        flags += ["--authentication", "required", "--authorization", "acl"]
        environment["RAFTLOG_BOOTSTRAP_USER"] = f"{_ADMIN}:{_ADMIN_PASSWORD}"
    cluster = Cluster(
        NODES,
        data_dir=directory / "data",
        with_cuts=False,
        serve_flags=flags,
        environment=lambda _: environment,
        secure=security is Security.TLS,
    )
    try:
        with cluster:
            access = cluster.access
            if security is Security.PERMISSIONS:
                access = BrokerAddresses(cluster.addresses, user=_ADMIN, password_file=str(password_file))
                for node in cluster.nodes.values():
                    node.access = access
                cluster.wait_ready(_READY_S_MAX)  # every node knows the superuser
            yield SecuredCluster(cluster, security, access)
    except BrokerFailed as failure:
        raise MeasureFailed(str(failure)) from failure
