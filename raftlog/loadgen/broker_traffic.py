"""Cost of operations in messages between brokers, from the brokers' counters in `/metrics`.

Each message counts once, at its sender. Messages that brokers send without any operation (heartbeats of processes and
of active Raft groups) are included for the duration of the run."""

import ssl
from collections import Counter
from collections.abc import Mapping, Sequence
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, Final, NamedTuple, Self

from prometheus_client.parser import text_string_to_metric_families

from raftlog.client.addresses import HTTPS, host_of
from raftlog.errors import Unavailable

_MESSAGES: Final = "raftlog_rpc_messages_total"
_BYTES: Final = "raftlog_rpc_bytes_total"
_WRITES: Final = "raftlog_rpc_writes_total"
_ANSWER_S_MAX: Final = 5.0


class BrokerTraffic(NamedTuple):
    """Totals of the messages between brokers, of all brokers together."""

    by_kind: Mapping[str, int]
    """Number of logical messages by kind."""
    bytes: int
    writes: int

    @property
    def messages(self) -> int:
        """Number of logical messages of all kinds."""
        return sum(self.by_kind.values())

    def subtract(self, before: Self) -> Self:
        """Return the traffic since the earlier reading `before`."""
        kinds = {kind: count - before.by_kind.get(kind, 0) for kind, count in self.by_kind.items()}
        return type(self)(
            {kind: count for kind, count in kinds.items() if count},
            self.bytes - before.bytes,
            self.writes - before.writes,
        )

    def as_json(self, operations: int) -> dict[str, Any]:
        """Return the totals per operation as fields for JSON."""
        share = 1 / max(1, operations)
        return {
            "messages_per_operation": round(self.messages * share, 3),
            "bytes_per_operation": round(self.bytes * share, 1),
            "writes_per_operation": round(self.writes * share, 3),
            "by_kind_per_operation": {
                kind: round(count * share, 4) for kind, count in sorted(self.by_kind.items(), key=lambda each: -each[1])
            },
        }


def scrape(addresses: Sequence[str], tls: ssl.SSLContext | None = None, headers: str = "") -> BrokerTraffic:
    """Return the totals of these brokers' counters; raises `Unavailable` if a broker does not answer."""
    by_kind: Counter[str] = Counter()
    size = writes = 0
    for address in addresses:
        for family in text_string_to_metric_families(_read_metrics(address, tls, headers)):
            for sample in family.samples:
                if sample.name == _MESSAGES and sample.labels["direction"] == "out":
                    by_kind[sample.labels["kind"]] += int(sample.value)
                elif sample.name == _BYTES and sample.labels["direction"] == "out":
                    size += int(sample.value)
                elif sample.name == _WRITES:
                    writes += int(sample.value)
    return BrokerTraffic(by_kind, size, writes)


def _read_metrics(address: str, tls: ssl.SSLContext | None, headers: str) -> str:
    """Return the text of `/metrics` of a broker; raises `Unavailable`."""
    host = host_of(address)
    is_secured = tls is not None and address.startswith(HTTPS)
    connection = (
        HTTPSConnection(host, timeout=_ANSWER_S_MAX, context=tls)
        if is_secured
        else HTTPConnection(host, timeout=_ANSWER_S_MAX)
    )
    try:
        lines = (line.partition(": ") for line in headers.split("\r\n") if line)
        connection.request("GET", "/metrics", headers={name: value for name, _, value in lines})
        with connection.getresponse() as response:
            text = response.read().decode()
    except (OSError, HTTPException) as error:
        raise Unavailable(f"{address}: reading /metrics failed: {error}") from None
    finally:
        connection.close()
    if response.status != 200:
        raise Unavailable(f"{address}: reading /metrics failed: HTTP {response.status}")
    return text
