"""All clients of a cluster of brokers."""

from jepsen.simulation.brokers.cluster import BrokerCluster
from jepsen.simulation.brokers.kafka.clients import STOP_S as KAFKA_STOP_S
from jepsen.simulation.brokers.kafka.clients import KafkaClients
from jepsen.simulation.brokers.workload.administrators import Administrator
from jepsen.simulation.brokers.workload.clients import SLACK_MS, TIMEOUTS_MS, Client
from jepsen.simulation.brokers.workload.committers import Commits, Committer
from jepsen.simulation.brokers.workload.group_members import Member
from jepsen.simulation.brokers.workload.idempotent_producers import IdempotentProducer
from jepsen.simulation.brokers.workload.producers import Producer
from jepsen.simulation.brokers.workload.readers import Reader
from jepsen.simulation.brokers.workload.trimmers import Trimmer
from jepsen.simulation.network.links import MILLISECOND_NS
from raftlog.runtime.journal.operations import GroupKey


class Workload:
    """Simulated clients of one run, of all kinds."""

    def __init__(self, cluster: BrokerCluster) -> None:
        self.cluster = cluster
        options = cluster.options
        self.administrators = [
            Administrator(cluster, cluster.random(f"administrator {place}"), place) for place in range(options.topics)
        ]
        self.producers = [Producer(cluster, cluster.random(f"producer {place}")) for place in range(options.producers)]
        self.idempotent_producers = [
            IdempotentProducer(cluster, cluster.random(f"numberer {place}"))
            for place in range(options.uses.idempotent_producers)
        ]
        self.commits = Commits(cluster)
        self.committers = [
            Committer(cluster, cluster.random(f"committer {place}"), self.commits)
            for place in range(options.committers)
        ]
        self.members = [
            Member(cluster, cluster.random(f"member {place}"), place, self.commits)
            for place in range(options.uses.members)
        ]
        self.trimmers = [Trimmer(cluster, cluster.random(f"trimmer {place}")) for place in range(options.uses.trimmers)]
        self.kafka = KafkaClients(cluster) if options.kafka else None
        self.readers = [Reader(cluster, cluster.random(f"reader {place}")) for place in range(options.readers)]

    def start(self) -> None:
        """Start all clients within two seconds."""
        for client in self._clients():
            client.step_later(client.random.randint(0, 2_000) * MILLISECOND_NS)
        if self.kafka is not None:
            self.kafka.start()

    def stop_administrators(self) -> None:
        """Stop all administrators, after their open requests."""
        self._stop(list(self.administrators))

    def keep_members_in_groups(self) -> None:
        """Let all members stay in their consumer groups from now on."""
        for member in self.members:
            member.stay_in_group()

    def stop(self) -> None:
        """Stop all clients, after their open requests."""
        if self.kafka is not None:
            self.kafka.stop()
            self.cluster.loop.run_for(KAFKA_STOP_S)
        self._stop(self._clients())

    def _stop(self, clients: list[Client]) -> None:
        """Stop these clients, and run until their open requests have ended."""
        for client in clients:
            client.is_stopped = True
        self.cluster.loop.run_for((TIMEOUTS_MS[-1] + SLACK_MS) / 1000 + 0.1)

    def acknowledged(self) -> int:
        """Return the number of acknowledged records."""
        more = 0 if self.kafka is None else self.kafka.acknowledged()
        return more + sum(producer.acknowledged for producer in self._writers())

    def written_since(self, since_ns: int) -> dict[GroupKey, None]:
        """Return the keys of the Raft groups with a write acknowledged after this time."""
        return {
            key: None
            for producer in self._writers()
            for key, answered_ns in producer.acknowledged_ns.items()
            if answered_ns > since_ns
        }

    def _writers(self) -> "list[Producer | IdempotentProducer]":
        """Return all producers."""
        return [*self.producers, *self.idempotent_producers]

    def _clients(self) -> list[Client]:
        """Return all clients, without those of Kafka's protocol."""
        lanes = [lane for producer in self.idempotent_producers for lane in producer.lanes]
        writers = [*self.administrators, *self.producers, *lanes, *self.trimmers]
        return [*writers, *self.readers, *self.committers, *self.members]
