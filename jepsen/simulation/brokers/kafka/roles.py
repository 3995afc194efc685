"""Base of the clients of Kafka's protocol: a program on the clients' node, with one topic found by name."""

import asyncio
from abc import ABC, abstractmethod
from random import Random
from typing import Any, Final

from jepsen.simulation.brokers.cluster import BrokerCluster
from jepsen.simulation.brokers.kafka.wire_client import LeaderOfPartition, NoAnswer, WireClient
from jepsen.simulation.brokers.workload.clients import KnownTopic
from jepsen.simulation.brokers.workload.final_drain import TRANSACTIONS_TOPIC
from raftlog.api.kafka.api import ApiKey
from raftlog.api.kafka.error_codes import ErrorCode
from raftlog.api.kafka.wire import schemas

TOPIC: Final = TRANSACTIONS_TOPIC
PARTITIONS: Final = 2
RETRY_S: Final = 0.08
ASK_S: Final = 1.5
"""Time for one request, after which a client looks for another broker."""
_CREATE_MS: Final = 3_000


class KafkaRole(ABC):
    """Base of simulated clients of Kafka's protocol; each runs until `is_stopped`."""

    def __init__(self, cluster: BrokerCluster, name: str) -> None:
        self.cluster, self.random = cluster, cluster.random(name)
        self.recorder, self.watch, self.loop = cluster.recorder, cluster.watch, cluster.loop
        self.process = cluster.new_process()
        self.is_stopped = False
        hosts = [machine.name for machine in cluster.machines.values()]
        self.client = WireClient(hosts, Random(self.random.random()))  # noqa: S311 - repeatable, not secret

    def topic(self) -> KnownTopic | None:
        """Return the topic from the newest copy of the metadata; None before it is created."""
        state = self.cluster.newest_state()
        if not state.has_topic(TOPIC):
            return None
        found = state.topic(TOPIC)
        return KnownTopic(TOPIC, found.topic_id, found.partition_count)

    async def run(self) -> None:
        """Create the topic, and repeat `step` until `is_stopped`."""
        while not self.is_stopped and self.topic() is None:
            await self._create_topic()
            await asyncio.sleep(RETRY_S)
        while not self.is_stopped:
            try:
                await self.step()
            except NoAnswer:
                await asyncio.sleep(RETRY_S)

    @abstractmethod
    async def step(self) -> None:
        """Perform one action. May raise `NoAnswer`."""

    async def _create_topic(self) -> None:
        """Request the creation of the topic at any broker; ignore the answer."""
        request = schemas.request_class(ApiKey.CREATE_TOPICS)
        factor = self.cluster.options.factors[0]
        topic = request.CreatableTopic(
            name=TOPIC, num_partitions=PARTITIONS, replication_factor=factor or -1, assignments=[], configs=[]
        )
        wanted = request(topics=[topic], timeout_ms=_CREATE_MS, validate_only=False)
        try:
            await self.client.ask(self.client.any_host(), wanted, 4, 2 * _CREATE_MS / 1000)
        except NoAnswer:
            return

    async def leader(self, number: int) -> LeaderOfPartition:
        """Return the leader of the partition. Raises `NoAnswer` without one."""
        found = await self.client.leader(TOPIC, number, ASK_S)
        if found is None:
            raise NoAnswer("no leader")
        return found


def code_in(value: Any) -> ErrorCode:
    """Return the error code of an answer."""
    return ErrorCode(value)
