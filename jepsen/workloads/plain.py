"""The part of `log` that asks for nothing but records and offsets: for systems that know no groups with members."""

from typing import Final

from jepsen.workloads.client.client import Client
from jepsen.workloads.plan import Plan

PLAN: Final = Plan({"list": 2})
CRASHES: Final = 0.002
"""Share of requests whose sender dies before there may be an answer."""


def begin(client: Client) -> None:
    client.produce(client.face.new_sender(), crashes=CRASHES)
    readers = client.read()
    client.list_offsets()
    client.commit(readers[0])
