"""Kafka listener of the product on a port of a simulated node."""

import asyncio
from itertools import count
from typing import Final

from jepsen.simulation.brokers.wires import ListeningPort
from jepsen.simulation.network.network import SimulatedNetwork
from jepsen.simulation.node import Process
from raftlog.api.kafka.connections import KafkaConnections
from raftlog.api.kafka.context import KafkaContext
from raftlog.api.kafka.dispatcher import Dispatcher
from raftlog.api.kafka.listener import served_apis
from raftlog.api.kafka.settings import KafkaSettings
from raftlog.api.kafka.turns import TURN_S
from raftlog.api.kafka.wire import schemas
from raftlog.partitions.broker import Broker
from raftlog.runtime.memory_budget import MemoryBudget

KAFKA_PORT: Final = 9092
NAME: Final = "kafka"
SETTINGS: Final = KafkaSettings(request_bytes_max=1 << 20, pipelined_requests_max=5)
"""Limits that are small enough to be reached in a run."""
_BUDGET_BYTES: Final = 4 << 20
_LOOK_S: Final = TURN_S / 4
"""Time between two looks at the clock of requests, which is the same in every run: a turn has few requests."""


async def serve(broker: Broker, network: SimulatedNetwork, process: Process) -> None:
    """Serve clients of Kafka's protocol on the broker's port until the process ends."""
    schemas.load()  # there are no threads in the simulation
    answers = MemoryBudget(_BUDGET_BYTES)
    context = KafkaContext(broker, NAME, SETTINGS, answers)
    dispatcher = Dispatcher(served_apis(context), broker.measuring.counters.kafka)
    looks = count()
    connections = KafkaConnections(
        NAME,
        SETTINGS,
        dispatcher,
        MemoryBudget(_BUDGET_BYTES),
        answers,
        clock=lambda: next(looks) * _LOOK_S,
    )
    port = ListeningPort(network, process, (process.node.name, KAFKA_PORT))
    loop = asyncio.get_running_loop()
    while True:
        accepted, _ = await loop.sock_accept(port)  # type: ignore[arg-type]  # the loop of the simulation
        await loop.connect_accepted_socket(connections, accepted)
