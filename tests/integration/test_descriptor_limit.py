"""A real broker that runs out of file descriptors: a named refusal, not ready, and service resumes with new ones."""

import http.client
import resource
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson

from raftlog.testing import BrokerProcess
from tests.waiting import block_until

WAIT_S = 30.0
VALUE = "x" * 4_000


class Client:
    """HTTP connection that stays open, since a new one would need a descriptor of the broker."""

    def __init__(self, address: str) -> None:
        host, _, port = address.partition(":")
        self._connection = http.client.HTTPConnection(host, int(port), timeout=WAIT_S)

    def close(self) -> None:
        self._connection.close()

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, Any, str | None]:
        """Send a request; return status, body and Retry-After."""
        data = None if body is None else orjson.dumps(body)
        self._connection.request(method, path, data, {"Content-Type": "application/json"})
        with self._connection.getresponse() as answer:
            return answer.status, orjson.loads(answer.read()), answer.getheader("Retry-After")

    def produce(self, number: int) -> tuple[int, Any, str | None]:
        return self.ask("POST", "/topics/rolled/partitions/0", {"records": [{"value": f"{number} {VALUE}"}]})

    def wait_ready(self, status: int) -> Any:
        def ask() -> Any:
            answer = self.ask("GET", "/v1/status/ready")
            return answer if answer[0] == status else None

        return block_until(ask)[1]


def test_a_broker_without_descriptors_refuses_and_recovers(tmp_path: Path) -> None:
    with BrokerProcess(str(tmp_path / "data"), log_path=tmp_path / "log") as broker:
        broker.start()
        with closing(Client(broker.address)) as client:
            acknowledged = exhaust_and_recover(broker, client)
        broker.kill()
        broker.start()
        with closing(Client(broker.address)) as client:
            assert read_numbers(client) == acknowledged


def exhaust_and_recover(broker: BrokerProcess, client: Client) -> list[int]:
    """Exhaust the broker's descriptors and release them; return the numbers of the acknowledged records."""
    configs = [{"name": "segment.bytes", "value": "65536"}]
    created = client.ask("POST", "/v3/clusters/-/topics", {"topic_name": "rolled", "configs": configs})
    assert created[0] == 201, created
    acknowledged = []
    assert client.produce(0)[0] == 200
    acknowledged.append(0)
    limits = resource.prlimit(broker.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (3, limits[1]))
    for number in range(1, 200):
        status, body, retry_after = client.produce(number)
        if status != 200:
            break
        acknowledged.append(number)
    assert (status, body["error_code"], body["outcome"]) == (503, 50306, "failed"), body
    assert retry_after == "1"
    assert "its limit is 3; raise `ulimit -n` or lower `--http-connections-max`" in body["message"]
    said = client.wait_ready(503)
    assert said["status"] == "no_file_descriptors"
    assert "ulimit -n" in said["reason"]
    reasons = " ".join(client.ask("GET", "/v1/cluster/health_overview")[1]["unhealthy_reasons"])
    assert "descriptors" in reasons
    assert "disk" not in reasons, "its disk is not full"
    assert client.ask("GET", "/topics/rolled/partitions/0/records?offset=0")[0] == 200

    resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, limits)
    assert client.wait_ready(200)["status"] == "ready"
    assert client.produce(1_000)[0] == 200
    return [*acknowledged, 1_000]


def read_numbers(client: Client) -> list[int]:
    """Return the numbers of the records in the partition."""
    found: list[int] = []
    while records := client.ask("GET", f"/topics/rolled/partitions/0/records?offset={len(found)}&timeout=0")[1]:
        found += [int(record["value"].split()[0]) for record in records]
    return found
