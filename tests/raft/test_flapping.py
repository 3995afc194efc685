"""One flapping voter never deposes a healthy leader, quiesced or not (F22, R41), nor do requests at followers.

Three or five nodes with equal clocks and messages that take up to two ticks. One follower's links fail and
recover at random: all of them, or only the one to the leader. Processes detect each other's absence after some
ticks, each pair separately. The term always stays, and once the faults end, all nodes follow."""

from random import Random

import pytest

from raftlog.raft.configuration import ReplicaId
from raftlog.raft.entry import Proposal
from raftlog.raft.messages import Message
from raftlog.raft.ready import Role
from raftlog.raft.settings import RaftSettings
from tests.raft.cluster import Cluster, replica_id

_LATENCY_TICKS = 2


class _FlappingCluster:
    """Cluster with a healthy leader, node 1, and node 2, whose links flap."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        size = random.choice([3, 3, 5])
        self.cluster = Cluster(
            range(1, size + 1), seed=seed, settings=RaftSettings(quiesce_after_ticks=random.choice([0, 2, 4]))
        )
        self.members = list(self.cluster.nodes)
        self.flapper = replica_id(2)
        self.cluster.set_heartbeats(alive=True)
        self.cluster.elect(1)
        self.term = self.cluster.core(1).term
        self.absent_after = {pair: random.randint(3, 6) for pair in self._pairs()}
        self.unheard = dict.fromkeys(self._pairs(), 0)
        self.cut: frozenset[tuple[ReplicaId, ReplicaId]] = frozenset()
        self.cut_until = 0
        self.arrivals: list[tuple[int, int, Message]] = []
        self.sleeps = 0

    def run(self, ticks: int) -> None:
        for now in range(ticks):
            self._change_links(now, heals=now > ticks - 60)
            self._send_request(now, quiet=now > ticks - 60)
            self._update_heartbeats()
            self._tick(now)
            leader = self.cluster.core(1)
            assert (leader.role, leader.term) == (Role.LEADER, self.term), self.cluster.events[-8:]
            self.sleeps += leader.is_quiesced
        assert {core.leader for core in (node.core for node in self.cluster.nodes.values())} == {replica_id(1)}

    def _pairs(self) -> list[tuple[ReplicaId, ReplicaId]]:
        return [(one, other) for one in self.members for other in self.members if one != other]

    def _change_links(self, now: int, *, heals: bool) -> None:
        if heals:
            self.cut = frozenset()
        elif now >= self.cut_until:
            self.cut_until = now + self.random.randint(1, 30)
            others = self.random.choice([[], self.members[:1], [one for one in self.members if one != self.flapper]])
            self.cut = frozenset(link for other in others for link in ((self.flapper, other), (other, self.flapper)))

    def _send_request(self, now: int, *, quiet: bool) -> None:
        if quiet or self.random.random() > 0.05:
            return
        node = self.cluster.nodes[self.random.choice(self.members)]
        if self.random.random() < 0.5:
            node.core.read_index(now)
        else:
            node.core.propose([Proposal(now, 1)])
        node.handle_readys()

    def _update_heartbeats(self) -> None:
        """Report to the nodes which processes they have not heard for too long, or hear again."""
        for pair in self._pairs():
            observer, other = pair
            was_alive = self.unheard[pair] < self.absent_after[pair]
            self.unheard[pair] = self.unheard[pair] + 1 if (other, observer) in self.cut else 0
            is_alive = self.unheard[pair] < self.absent_after[pair]
            if was_alive != is_alive:
                self.cluster.nodes[observer].core.note_process(other.node_id, is_alive)
                self.cluster.nodes[observer].handle_readys()

    def _tick(self, now: int) -> None:
        cluster = self.cluster
        for node in cluster.nodes.values():
            node.core.tick()
            node.handle_readys()
        self._send(now)
        while self.arrivals and self.arrivals[0][0] <= now:
            _, _, message = self.arrivals.pop(0)
            if (message.sender, message.to) not in self.cut:
                cluster.nodes[message.to].core.step(message)
                cluster.nodes[message.to].handle_readys()
            self._send(now)

    def _send(self, now: int) -> None:
        for message in self.cluster.network:
            self.arrivals.append((now + self.random.randint(0, _LATENCY_TICKS), len(self.arrivals), message))
        self.cluster.network.clear()
        self.arrivals.sort(key=lambda arrival: arrival[0])


@pytest.mark.parametrize("seed", range(40))
def test_a_flapping_member_never_deposes_a_healthy_leader(seed: int) -> None:
    _FlappingCluster(seed).run(600)
