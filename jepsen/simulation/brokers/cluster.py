"""Cluster of whole brokers in virtual time, with its observers and the history of its clients.

    machines          first those that found the cluster, then those that join it, then those that come late
    names             of topics, as clients use them now; each has its administrator
    watch, checker    check the internal state, and the answers to clients

Made by `run`.
"""

from functools import partial
from typing import Final, TypeAlias
from uuid import UUID

from jepsen.checkers import HistoryChecker, Recorder, Rules
from jepsen.simulation.brokers.gossip_wire import GOSSIP_PORT, Interference, SimulatedWire
from jepsen.simulation.brokers.kafka.listener import KAFKA_PORT, NAME, serve
from jepsen.simulation.brokers.machine import DATA_DIR, RPC_PORT
from jepsen.simulation.brokers.machine import Machine as AnyMachine
from jepsen.simulation.brokers.options import BrokerOptions
from jepsen.simulation.brokers.site import Site
from jepsen.simulation.brokers.transport import SECRET
from jepsen.simulation.network.network import SimulatedNetwork
from jepsen.simulation.node import Node, Process
from jepsen.simulation.verdicts import PropertyBroken, feed_checker
from raftlog.partitions.broker import Broker
from raftlog.partitions.controller.machine import ControllerState
from raftlog.partitions.gossip.settings import GossipSettings
from raftlog.partitions.node import NodeEnvironment
from raftlog.partitions.settings import BrokerSettings
from raftlog.raft import Role
from raftlog.runtime.journal.operations import GroupKey
from raftlog.runtime.replica.partition_replica import PartitionReplica
from raftlog.topic_config import TopicConfig

Machine: TypeAlias = AnyMachine[Broker]
START_S: Final = 2.0
"""Seconds within which the first brokers start, at random times; brokers that join start up to `JOIN_S` later."""
JOIN_S: Final = 5.0
LATE_S: Final = (6.0, 24.0)
HTTP_PORT: Final = 8080
DAY_S: Final = 86_400
ANOMALIES_MAX: Final = 1_000_000
"""Limit of recorded anomalies of each kind. It is high, because unread records of deleted topics count, too."""


class BrokerCluster(Site[Broker]):
    """Simulated cluster of brokers, with its observers and the history of its clients."""

    def __init__(self, options: BrokerOptions) -> None:
        self.options = options
        super().__init__("brokers", options)
        self._interference = Interference(
            self.random("pests"), 0.0 if options.gossip is None else options.gossip.interference
        )
        for machine in self.machines.values():
            machine.make_wire = self._make_wire
        self.clients_node = self._add_clients_node() if options.kafka else None
        """Node of the clients of Kafka's protocol."""
        self.checker = HistoryChecker(Rules(dense=not options.transactions), kept_max=ANOMALIES_MAX)
        self.recorder = Recorder(lambda: self.loop.now_ns, partial(feed_checker, self.checker))
        self.names = [f"topic-{place}" for place in range(options.topics)]
        self.wanted: dict[GroupKey, tuple[str, int]] = {}
        """Partitions to which clients write now; all partitions when it is empty."""
        self._processes = 0
        self._producer_ids: dict[int, str] = {}
        """Allocated producer ids, with the broker that allocated each."""

    def _add_clients_node(self) -> Node:
        """Return a new node without a broker, connected to all brokers."""
        node = self.loop.add_node("clients")
        self.network.attach(node)
        self.loop.wire(self.network, self.loop.nodes)
        return node

    def make_gossip_network(self) -> SimulatedNetwork | None:
        """Create the network of gossip, with the losses in the options; return None in a run without gossip."""
        gossip = self.options.gossip
        if gossip is None:
            return None
        self.network.are_shared = gossip.shares_cuts
        link = self.options.link
        return SimulatedNetwork(self.loop, self.random("gossip network"), link._replace(loss=gossip.loss))

    def _make_wire(self, process: Process) -> SimulatedWire:
        """Return the gossip wire of a process."""
        assert self.network.gossip_network is not None, "gossip is switched off"
        return SimulatedWire(self.loop, self.network.gossip_network, self.loop.hosts, process, self._interference)

    # the program

    async def run_process(self, machine: Machine, environment: NodeEnvironment) -> None:
        """Open a broker on the machine and run it until it stops."""
        broker = await Broker.open(self._settings(machine), environment=environment)
        self.watch_process(machine, broker.node, broker.metadata)
        kafka = {NAME: f"{machine.name}:{KAFKA_PORT}"} if self.options.kafka else {}
        await broker.start(f"{machine.name}:{HTTP_PORT}", kafka)
        self.watch.observe_cluster_id(machine.node, broker.cluster_id)
        machine.service = broker
        process = machine.node.process
        if self.options.kafka and process is not None:
            process.spawn(serve(broker, self.network, process), name="Kafka's listener")
        machine.note(f"serves in cluster {broker.cluster_id}")
        failure = await broker.node.ended
        if failure is not None:
            raise failure

    def _settings(self, machine: Machine) -> BrokerSettings:
        """Return the settings of the machine's broker; each machine has its own order of the seeds."""
        options = self.options
        seeds = [(f"n{number}", RPC_PORT) for number in range(1, options.seeds + 1)]
        self.random(f"seeds {machine.node_id}").shuffle(seeds)
        return BrokerSettings(
            data_dir=DATA_DIR,
            node_id=machine.node_id,
            rpc=(machine.name, RPC_PORT),
            seeds=tuple(seeds),
            secret=SECRET,
            insecure=True,
            topic_config=TopicConfig(segment_bytes=options.segment_bytes, max_message_bytes=64 * 1024),
            retention_interval_s=1.0,
            offsets_partitions=2,
            transaction_partitions=2,
            producers_max=options.uses.producers_max,
            storage_min_free_bytes=4 * 1024,
            scrub_interval_days=options.scrub_s / DAY_S,
            metadata_growth_bytes_max=options.metadata_growth_bytes,
            driver=options.driver_config(),
            gossip=None if options.gossip is None else GossipSettings(host=machine.name, port=GOSSIP_PORT),
        )

    # life

    def start(self) -> None:
        """Start every machine at a random time; brokers that join start later."""
        random, options = self.random("start"), self.options
        for machine in self.machines.values():
            is_seed = machine.node_id <= options.seeds
            if machine.node_id > options.seeds + options.joiners:
                self.start_after(machine, random.uniform(*LATE_S))
            else:
                self.start_after(machine, random.uniform(0, START_S) + (0 if is_seed else random.uniform(0, JOIN_S)))

    def new_process(self) -> int:
        """Return a new number for a client's process in the history."""
        self._processes += 1
        return self._processes

    def record_producer_id(self, producer: int, machine: str) -> None:
        """Record that a broker allocated a producer id. Raises `PropertyBroken` if it was allocated before."""
        if producer in self._producer_ids:
            raise PropertyBroken(
                "producer-id-twice", {"id": producer, "by": machine, "before_by": self._producer_ids[producer]}
            )
        self._producer_ids[producer] = machine

    # what is known from outside

    def newest_state(self) -> ControllerState:
        """Return the newest copy of the controller's state; an empty one if no broker serves."""
        copies = [broker.metadata.state for _, broker in self.serving()]
        return max(copies, key=lambda state: state.applied_index) if copies else ControllerState()

    def is_removed(self, machine: Machine, state: ControllerState | None = None) -> bool:
        """Return whether the cluster has removed the machine's broker and the disk has not been wiped since then."""
        state = state or self.newest_state()
        return machine.node_id not in state.brokers and any(
            row.disk_uuid in machine.disk_uuids for row in state.retired
        )

    def members(self) -> list[Machine]:
        """Return the machines that belong to the cluster or may join it."""
        state = self.newest_state()
        return [machine for machine in self.machines.values() if not self.is_removed(machine, state)]

    def serving_members(self) -> list[tuple[Machine, Broker]]:
        """Return the members of the cluster that serve, by node id."""
        state = self.newest_state()
        return [(machine, broker) for machine, broker in self.serving() if not self.is_removed(machine, state)]

    def replicas(self, key: GroupKey) -> list[tuple[Machine, PartitionReplica]]:
        """Return the replicas of a Raft group in serving processes, with their machines."""
        found = ((machine, broker.node.driver.groups.get(key)) for machine, broker in self.serving_members())
        return [(machine, group) for machine, group in found if group is not None]

    def leader(self, key: GroupKey) -> tuple[Machine, PartitionReplica] | None:
        """Return the leader of the latest term among the running machines; None without one."""
        leaders = [
            (group.core.term, machine, group)
            for machine, group in self.replicas(key)
            if machine.is_running and group.core.role is Role.LEADER
        ]
        return max(leaders, key=lambda each: each[0])[1:] if leaders else None

    def controller_group_id(self) -> UUID | None:
        """Return the id of the controller's Raft group; None before a broker has it."""
        found = (broker.metadata.group_id for _, broker in self.serving())
        return next((group_id for group_id in found if group_id is not None), None)

    def keys(self) -> list[GroupKey]:
        """Return the keys of all Raft groups with a replica on any broker, sorted."""
        return sorted({key for _, broker in self.serving_members() for key in broker.node.driver.groups})
