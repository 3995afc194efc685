"""Workload of transactions: lists, transfers and read-process-write chains, beside plain requests.

Plain requests write to the same partitions, also while transactions are open there."""

from typing import Final

from jepsen.workloads.client.client import SEND_SHARE, Client
from jepsen.workloads.plan import Plan
from jepsen.workloads.roles.chain import Chain
from jepsen.workloads.roles.transactions import Scanner, Transactor
from raftlog.types import TopicPartition

LISTS, ACCOUNTS, INPUTS, OUTPUTS = "lists", "accounts", "inputs", "outputs"
PLAN: Final = Plan({LISTS: 3, ACCOUNTS: 3, INPUTS: 3, OUTPUTS: 2}, is_transactional=True)
TRANSACTORS: Final = 2
_FIRST: Final = 200
"""Process number of the first producer of transactions; the chain follows."""
_PLAIN_SHARE: Final = SEND_SHARE / 4


def begin(client: Client) -> None:
    """Add the roles of this workload to the client."""
    library = client.transactions()
    client.add_producer(client.adapter.new_sender(), _PLAIN_SHARE)
    client.add_readers()
    client.add_listers()
    for number in range(TRANSACTORS):
        transactor = Transactor(
            library,
            client.history,
            client.process(_FIRST + number),
            _places(client, LISTS),
            _places(client, ACCOUNTS),
            Scanner(client.access, client.new_random()),
            client.values,
            client.new_random(),
        )
        client.add_role(transactor.run)
    inputs = [place.partition for place in _places(client, INPUTS)]
    owned = [number for number in inputs if number % client.clients == (client.number - 1) % client.clients]
    if owned or library.names_members:
        chain = Chain(
            library,
            client.history,
            client.process(_FIRST + TRANSACTORS),
            INPUTS,
            owned,
            _places(client, OUTPUTS),
            client.values,
            client.new_random(),
        )
        client.add_role(chain.run)


def _places(client: Client, topic: str) -> list[TopicPartition]:
    """Return the client's partitions of a topic."""
    return [place for place in client.partitions if place.topic == topic]
