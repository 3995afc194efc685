"""Part of `log` with only records and offsets, for systems without group members."""

from typing import Final

from jepsen.workloads.client.client import Client
from jepsen.workloads.plan import Plan

PLAN: Final = Plan({"list": 2})
CRASHES: Final = 0.002
"""Share of requests whose sender is cancelled, perhaps before the answer."""


def begin(client: Client) -> None:
    client.produce(client.face.new_sender(), crashes=CRASHES)
    readers = client.read()
    client.list_offsets()
    client.commit(readers[0])
