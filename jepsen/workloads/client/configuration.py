"""Configuration of a client process as JSON: its number, load and addresses, and its period."""

from pathlib import Path
from typing import Final, NamedTuple

import orjson

from jepsen.workloads.adapters.port import ClientName
from raftlog.types import TopicPartition

END: Final = b"end\n"
"""Line that a client receives when its period ends early."""


class ClientConfiguration(NamedTuple):
    """Configuration of a client process.

    `rate` is its number of operations a second; `addresses` are HTTP addresses."""

    number: int
    workload: str
    addresses: dict[int, str]
    partitions: tuple[TopicPartition, ...]
    rate: float
    seed: int
    history: Path
    epoch_ns: int
    clients: int
    """Number of clients."""
    client: ClientName = "http"
    """Client library."""
    kafka: dict[int, str] = {}  # noqa: RUF012 - never changed
    """Addresses for Kafka's protocol, by node id."""

    def write(self, path: Path) -> None:
        """Write the configuration as JSON."""
        fields = {**self._asdict(), "partitions": list(map(list, self.partitions)), "history": str(self.history)}
        path.write_bytes(orjson.dumps(fields, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_INDENT_2))

    @classmethod
    def read(cls, path: Path) -> "ClientConfiguration":
        """Read a configuration that `write` has written."""
        fields = orjson.loads(path.read_bytes())
        return cls(
            number=fields["number"],
            workload=fields["workload"],
            addresses={int(node): address for node, address in fields["addresses"].items()},
            partitions=tuple(TopicPartition(topic, partition) for topic, partition in fields["partitions"]),
            rate=fields["rate"],
            seed=fields["seed"],
            history=Path(fields["history"]),
            epoch_ns=fields["epoch_ns"],
            clients=fields["clients"],
            client=fields["client"],
            kafka={int(node): address for node, address in fields["kafka"].items()},
        )


class Period(NamedTuple):
    """Period in which a client works, on the clock that all processes share."""

    begin_ns: int
    end_ns: int


def period_line(period: Period) -> bytes:
    """Return the line of JSON that passes a period to a client."""
    return orjson.dumps(period._asdict()) + b"\n"


def read_period(line: bytes) -> Period:
    """Return the period in a line of `period_line`."""
    return Period(**orjson.loads(line))
