"""Random schedules: events and faults of a cluster of cores drawn from one seed, then convergence without faults.

python -m tests.raft.schedule FIRST_SEED COUNT [STEPS]      runs more of them, and prints the seed of a failure
"""

import sys
from collections.abc import Callable, Hashable
from random import Random

from raftlog.raft.configuration import ConfigurationChange
from raftlog.raft.ready import Role
from raftlog.raft.settings import RaftSettings
from raftlog.types import Index
from tests.raft.cluster import Cluster, Node, replica_id
from tests.raft.describe import describe_core
from tests.raft.trace import Line

_CONVERGENCE_TICKS = 400


class Schedule:
    """One run of a cluster under random events."""

    def __init__(self, seed: int, record: Callable[[Line], None] | None = None) -> None:
        self.random = random = Random(seed)
        size = random.choice([3, 3, 3, 4, 5])
        self.spare = [size + 1, size + 2]
        self.cluster = Cluster(
            range(1, size + 1),
            seed=seed,
            record=record,
            syncs_at_once=random.random() < 0.2,
            settings=RaftSettings(
                election_ticks_min=random.choice([3, 6]),
                heartbeat_ticks=random.choice([1, 2]),
                quiesce_after_ticks=random.choice([0, 0, 4]),
                entries_per_message_max=random.choice([1, 3, 1000]),
                message_bytes_max=random.choice([1, 100, 1 << 20]),
                in_flight_entries_max=random.choice([1, 4, 1000]),
                fetch_bytes_min=random.choice([1 << 20, 1 << 20, 8, 20]),
            ),
        )
        self.values = self.sleeps = 0
        changes = random.choice([0, 1, 4])
        self.read_floors: dict[Hashable, Index] = {}
        self.actions: dict[Callable[[], object], float] = {
            self.deliver_first: 20,
            self.deliver_any: random.choice([5, 25]),
            self.deliver_many: random.choice([15, 40]),
            self.tick: 30,
            self.elapse: random.choice([1, 4]),
            self.campaign: random.choice([0, 2]),
            self.sync: 20,
            self.sync_all: random.choice([0, 15]),
            self.propose: 12,
            self.read: 4,
            self.drop: random.choice([0, 2, 6]),
            self.duplicate: random.choice([0, 2]),
            self.cut: random.choice([0, 1, 3]),
            self.cut_leader: random.choice([0, 1]),
            self.heal: 3,
            self.crash: random.choice([0, 1, 3]),
            self.restart: 4,
            # Damage hits a minority of the voters, which a change could make the only one.
            self.damage: 0 if changes else random.choice([0, 2]),
            self.trim: random.choice([0, 1]),
            self.install: 2,
            self.change: changes,
            self.transfer: random.choice([0, 0.5]),
            self.step_down: random.choice([0, 0.1]),
            self.run_without_faults: 0.5 if self.cluster.settings.quiesce_after_ticks else 0,
            self.note_process: random.choice([1, 20]),
        }

    def run(self, steps: int) -> None:
        """Run the faulty phase, with invariants checked at every step; then `converge`."""
        actions, weights = list(self.actions), list(self.actions.values())
        for action in self.random.choices(actions, weights, k=steps):
            action()
            self.check_reads()
        self.converge()

    # what can happen

    def deliver_first(self) -> None:
        if self.cluster.network:
            self.cluster.deliver()

    def deliver_many(self) -> None:
        for _ in range(self.random.randint(1, 20)):
            self.deliver_first()

    def deliver_any(self) -> None:
        if self.cluster.network:
            self.cluster.deliver(self.random.randrange(len(self.cluster.network)))

    def drop(self) -> None:
        if self.cluster.network:
            del self.cluster.network[self.random.randrange(len(self.cluster.network))]

    def duplicate(self) -> None:
        if self.cluster.network:
            self.cluster.network.append(self.random.choice(self.cluster.network))

    def tick(self) -> None:
        """Tick; sometimes leave out a tick of one node, since clocks differ."""
        for node in self.cluster.nodes.values():
            if node.is_up and self.random.random() < 0.8:
                node.core.tick()
                node.handle_readys()

    def elapse(self) -> None:
        """Advance the clocks of all nodes, each at its own rate, without deliveries."""
        for node in self.cluster.nodes.values():
            for _ in range(self.random.randint(0, 8) if node.is_up else 0):
                node.core.tick()
                node.handle_readys()

    def campaign(self) -> None:
        node = self._pick_node()
        if node:
            node.core.campaign()
            node.handle_readys()

    def sync(self) -> None:
        node = self._pick_node()
        if node and node.held:
            node.sync(self.random.randint(1, len(node.held)))

    def sync_all(self) -> None:
        for node in self.cluster.nodes.values():
            if node.is_up:
                node.sync()

    def propose(self) -> None:
        node = self._pick_node(leads=True)
        if node:
            count = self.random.randint(1, 4)
            self.values += count
            self.cluster.propose(node.me.node_id, *range(self.values - count, self.values), size_bytes=10)

    def read(self) -> None:
        node = self._pick_node(leads=self.random.random() < 0.5)
        if node:
            self.values += 1
            floor = max(other.core.committed_index for other in self.cluster.nodes.values())
            if node.core.read_index(self.values) is None:
                self.read_floors[self.values] = floor
            node.handle_readys()

    def cut(self) -> None:
        numbers = [me.node_id for me in self.cluster.nodes]
        self.cluster.isolate(*self.random.sample(numbers, self.random.choice([1, len(numbers) // 2])))

    def heal(self) -> None:
        self.cluster.isolate()

    def cut_leader(self) -> None:
        """Isolate the leader, which continues to accept proposals, until the others elect another."""
        leader = self.cluster.leader()
        if leader:
            self.cluster.isolate(leader.me.node_id)
            for _ in range(self.random.randint(0, 3)):
                self.values += 1
                self.cluster.propose(leader.me.node_id, self.values, size_bytes=10)
            self.elapse()

    def crash(self) -> None:
        node = self._pick_node()
        if node:
            node.crash(self.random.randint(0, len(node.disk.pending)))

    def restart(self) -> None:
        down = [node for node in self.cluster.nodes.values() if not node.is_up]
        if down:
            self.random.choice(down).start()

    def damage(self) -> None:
        """Damage the last, durable entry of a stopped node: its id stays and its bytes are lost."""
        down = [node for node in self.cluster.nodes.values() if not node.is_up]
        if not down or self.cluster.damaged:
            return
        node = self.random.choice(down)
        log = node.disk.log
        if log.last_index > log.boundary.index:
            node.disk.damage_last()
            self.cluster.damaged.add(node.me)
            node.start()

    def trim(self) -> None:
        node = self._pick_node()
        if node:
            highest = min(node.core.status().applied_index, node.disk.log.last_index)
            if highest > node.log.boundary.index:
                node.trim(Index(self.random.randint(node.log.boundary.index, highest)))

    def install(self) -> None:
        node = self._pick_node()
        if node:
            node.install_or_fetch()

    def change(self) -> None:
        """Let a leader propose a random configuration of present and spare replicas."""
        node = self._pick_node(leads=True)
        if not node:
            return
        for number in self.spare:
            if replica_id(number) not in self.cluster.nodes:
                self.cluster.add(number)
        everyone = list(self.cluster.nodes)
        voters = self.random.sample(everyone, self.random.randint(1, min(5, len(everyone))))
        learners = [member for member in everyone if member not in voters and self.random.random() < 0.5]
        current = node.core.configuration.index
        node.core.propose_configuration(ConfigurationChange(tuple(voters), tuple(learners), current))
        node.handle_readys()

    def transfer(self) -> None:
        node = self._pick_node(leads=True)
        if node:
            node.core.transfer_leadership(self.random.choice(list(self.cluster.nodes)))
            node.handle_readys()

    def step_down(self) -> None:
        node = self._pick_node(leads=True)
        if node:
            node.core.step_down("told to")
            node.handle_readys()

    def note_process(self) -> None:
        node, other = self._pick_node(), self.random.choice(list(self.cluster.nodes))
        if node and node.me != other:
            node.core.note_process(other.node_id, self.random.random() < 0.8)
            node.handle_readys()

    def run_without_faults(self) -> None:
        """Run without faults, so that the Raft group may quiesce."""
        self.cluster.isolate()
        self.cluster.set_heartbeats(alive=True)
        self.cluster.tick(12)
        self.sleeps += sum(node.is_up and node.core.is_quiesced for node in self.cluster.nodes.values())

    # what must hold

    def check_reads(self) -> None:
        """Check that a read sees every entry committed before its request, and only entries applied here."""
        for node in self.cluster.nodes.values():
            for read in node.reads:
                floor = self.read_floors.pop(read.request)
                assert floor <= read.index <= node.core.status().applied_index, (
                    f"{read} asked when {floor} was committed"
                )
            node.reads.clear()

    def converge(self) -> None:
        """End all faults; check that a leader is elected, accepts a write, and all members apply the same."""
        cluster = self.cluster
        cluster.isolate()
        for node in cluster.nodes.values():
            if not node.is_up:
                node.start()
            node.core.lift_quarantine()
        cluster.set_heartbeats(alive=True)
        self.values += 1
        accepted = None
        for _ in range(_CONVERGENCE_TICKS):
            cluster.settle()
            self.check_reads()
            leader = cluster.leader()
            if leader and accepted is None and cluster.propose(leader.me.node_id, self.values) is not None:
                cluster.settle()
                if self.values in cluster.data(leader.me.node_id):
                    accepted = leader.me
            elif leader and accepted and self._is_converged(leader):
                return
            cluster.tick()
        states = "\n".join(describe_core(node.core) for node in cluster.nodes.values())
        raise AssertionError(f"no convergence:\n{states}\n" + "\n".join(cluster.events[-20:]))

    def _is_converged(self, leader: Node) -> bool:
        last = leader.core.status().last
        members = [self.cluster.nodes[member] for member in leader.core.configuration.all_members()]
        return not leader.core.configuration.is_joint and all(
            node.core.status().applied_index == last.index and node.core.status().last == last for node in members
        )

    def _pick_node(self, *, leads: bool = False) -> Node | None:
        up = [
            node for node in self.cluster.nodes.values() if node.is_up and (not leads or node.core.role is Role.LEADER)
        ]
        return self.random.choice(up) if up else None


def main(first: int, count: int, steps: int) -> None:
    """Run schedules one after another; the first failure stops it."""
    for seed in range(first, first + count):
        try:
            Schedule(seed).run(steps)
        except BaseException:
            print(f"seed {seed}", file=sys.stderr)
            raise


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 600)
