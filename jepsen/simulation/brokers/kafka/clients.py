"""All clients of Kafka's protocol of one run, which share one node."""

from typing import Final

from jepsen.simulation.brokers.cluster import BrokerCluster
from jepsen.simulation.brokers.kafka.members import KafkaGroupMember
from jepsen.simulation.brokers.kafka.producers import KafkaProducer
from jepsen.simulation.brokers.kafka.readers import KafkaReader
from jepsen.simulation.brokers.kafka.roles import PARTITIONS, KafkaRole
from jepsen.simulation.brokers.kafka.transactions import KafkaChain, KafkaTransactor, TransactionalRole

MEMBERS: Final = 3
TRANSACTORS: Final = 6
CHAINS: Final = 2
STOP_S: Final = 20.0
"""More than the delivery timeout of a producer and the deadline of its last request."""


class KafkaClients:
    """All clients of Kafka's protocol of one run."""

    def __init__(self, cluster: BrokerCluster) -> None:
        self._cluster = cluster
        self.producers = [KafkaProducer(cluster, f"kafka producer {place}") for place in range(2)]
        self.readers = [KafkaReader(cluster, f"kafka reader {place}", place) for place in range(PARTITIONS)]
        self.transactors: list[TransactionalRole] = []
        if cluster.options.transactions:
            self.transactors = [
                *(KafkaTransactor(cluster, f"transactor {n}", f"transactor-{n // 2}") for n in range(TRANSACTORS)),
                *(KafkaChain(cluster, f"chain {n}", "chain") for n in range(CHAINS)),
            ]
        self.members = [KafkaGroupMember(cluster, f"kafka member {place}") for place in range(MEMBERS)]

    def start(self) -> None:
        """Start all clients."""
        node = self._cluster.clients_node
        assert node is not None, "the run has no clients of Kafka's protocol"
        process = node.start()
        for role in self._roles():
            process.spawn(role.run(), name=type(role).__name__)

    def stop(self) -> None:
        """Let all clients stop after their present actions."""
        for role in self._roles():
            role.is_stopped = True

    def acknowledged(self) -> int:
        """Return the number of acknowledged records."""
        written = sum(producer.acknowledged for producer in self.producers)
        return written + sum(transactor.committed for transactor in self.transactors)

    def _roles(self) -> list[KafkaRole]:
        """Return all clients of all kinds."""
        return [*self.producers, *self.readers, *self.members, *self.transactors]
