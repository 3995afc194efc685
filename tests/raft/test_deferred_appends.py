"""Appends that followers beyond the quorum get later, and elections among followers whose logs end differently."""

from random import Random

import pytest

from raftlog.raft.messages import AppendRequest, AppendResponse, Message, PreVoteRequest, PreVoteResponse
from raftlog.raft.ready import Role
from raftlog.raft.settings import RaftSettings
from raftlog.types import Term
from tests.raft.cluster import Cluster, replica_id
from tests.raft.lone import LoneFollower, entry_id

THREE = (1, 2, 3)
BYTES_MAX = 100


def deferring(*members: int, learners: tuple[int, ...] = ()) -> Cluster:
    """Return a cluster whose leader 1 replicates to all others, and defers up to `BYTES_MAX`."""
    cluster = Cluster(members, learners, settings=RaftSettings(deferred_bytes_max=BYTES_MAX))
    cluster.elect(1)
    cluster.tick(4)
    cluster.settle()
    return cluster


def recipients(cluster: Cluster) -> list[int]:
    """Return the nodes to which entries are on their way."""
    return sorted(
        message.to.node_id for message in cluster.network if isinstance(message, AppendRequest) and message.entries
    )


def send_deferred(cluster: Cluster) -> None:
    """Do what the driver's timer does."""
    cluster.core(1).send_deferred_appends()
    cluster[1].handle_readys()


def test_a_small_append_goes_to_the_quorum_alone_and_is_committed() -> None:
    cluster = deferring(*THREE)
    cluster.propose(1, "a")
    (prompt,) = recipients(cluster)
    cluster.settle()
    later = 5 - prompt
    assert cluster.data(1) == ["a"]
    assert cluster.core(later).last_id.index < cluster.core(1).last_id.index
    assert cluster.core(1).are_appends_deferred


def test_the_others_get_everything_in_one_append() -> None:
    cluster = deferring(*THREE)
    for payload in "abc":
        cluster.propose(1, payload)
        cluster.settle()
    send_deferred(cluster)
    (append,) = (message for message in cluster.network if isinstance(message, AppendRequest))
    assert [each.payload for each in append.entries] == ["a", "b", "c"]
    cluster.settle()
    cluster.tick(4)
    assert [cluster.data(number) for number in THREE] == [["a", "b", "c"]] * 3
    assert not cluster.core(1).are_appends_deferred


def test_five_voters_have_two_in_the_quorum_beside_the_leader() -> None:
    cluster = deferring(1, 2, 3, 4, 5)
    cluster.propose(1, "a")
    assert len(recipients(cluster)) == 2
    cluster.settle()
    assert cluster.data(1) == ["a"]


def test_a_follower_that_joins_the_quorum_gets_its_deferred_entries_at_once() -> None:
    """The quorum is chosen anew by an acknowledgement of a follower that itself lacks nothing."""
    cluster = deferring(1, 2, 3, 4, 5)

    def take(kind: type, *nodes: int) -> list[Message]:
        """Remove the messages of this type to these nodes from the network, and return them."""
        taken = [each for each in cluster.network if isinstance(each, kind) and each.to.node_id in nodes]
        cluster.network[:] = [each for each in cluster.network if each not in taken]
        return taken

    def deliver(messages: list[Message]) -> None:
        """Let the receivers process the messages."""
        for message in messages:
            cluster[message.to.node_id].core.step(message)
            cluster[message.to.node_id].handle_readys()

    cluster.propose(1, "a")
    slow, prompt = recipients(cluster)
    joining, last = (node for node in (2, 3, 4, 5) if node not in (slow, prompt))
    appends = {node: take(AppendRequest, node) for node in (slow, prompt)}
    send_deferred(cluster)
    appends |= {node: take(AppendRequest, node) for node in (joining, last)}
    cluster.propose(1, "b")
    assert recipients(cluster) == [slow, prompt]
    cluster.network.clear()
    for node in (joining, prompt):
        deliver(appends[node])
        deliver(take(AppendResponse, 1))
    assert cluster.core(1).committed_index == cluster.core(1).last_id.index - 1
    assert recipients(cluster) == [joining]


def test_more_bytes_than_the_bound_go_to_all() -> None:
    cluster = deferring(*THREE)
    cluster.propose(1, "small", size_bytes=BYTES_MAX)
    assert len(recipients(cluster)) == 1
    cluster.settle()
    cluster.propose(1, "one more", size_bytes=1)
    assert set(recipients(cluster)) == {2, 3}
    cluster.settle()
    assert cluster.core(2).last_id == cluster.core(3).last_id == cluster.core(1).last_id
    cluster.propose(1, "small again")
    assert len(recipients(cluster)) == 1


def test_entries_proposed_in_the_turn_of_deferred_ones_are_sent_with_them() -> None:
    cluster = deferring(*THREE)
    cluster.propose(1, "a")
    cluster.settle()
    cluster.core(1).send_deferred_appends()
    cluster.propose(1, "b")
    assert set(recipients(cluster)) == {2, 3}


def test_a_silent_follower_is_replaced_in_the_quorum() -> None:
    cluster = deferring(*THREE)
    cluster.propose(1, "a")
    (prompt,) = recipients(cluster)
    later = 5 - prompt
    cluster.isolate(prompt)
    cluster.settle()
    assert cluster.data(1) == []
    send_deferred(cluster)
    cluster.settle()
    assert cluster.data(1) == ["a"], "the other follower completes the quorum"
    cluster.propose(1, "b")
    send_deferred(cluster)
    cluster.settle()
    cluster.propose(1, "c")
    assert recipients(cluster) == [later], "appends go to the follower that answers at once"


def test_a_commit_without_a_follower_of_the_quorum_replaces_it_before_the_next_append() -> None:
    cluster = deferring(*THREE)
    cluster.propose(1, "a")
    (prompt,) = recipients(cluster)
    cluster.isolate(prompt)
    cluster.settle()
    send_deferred(cluster)
    cluster.settle()
    cluster.propose(1, "b")
    assert recipients(cluster) == [5 - prompt]
    cluster.settle()
    assert cluster.data(1) == ["a", "b"], "it does not wait again"


def test_a_follower_that_lacks_older_entries_is_sent_everything_at_once() -> None:
    cluster = deferring(*THREE)
    cluster.propose(1, "a")
    (prompt,) = recipients(cluster)
    cluster.settle()
    later = 5 - prompt
    send_deferred(cluster)
    assert recipients(cluster) == [later]
    cluster.network.clear()  # lost: found by the next heartbeat
    cluster.tick(4)
    assert cluster.core(later).last_id == cluster.core(1).last_id


def test_a_learner_is_not_needed_by_the_quorum() -> None:
    cluster = deferring(*THREE, learners=(4,))
    cluster.propose(1, "a")
    assert len(recipients(cluster)) == 1
    send_deferred(cluster)
    assert 4 in recipients(cluster)


def test_configurations_go_to_all_and_nothing_is_deferred_while_one_is_joint() -> None:
    cluster = deferring(*THREE)
    cluster.add(4)
    cluster.change(1, [1, 2, 4])
    assert set(recipients(cluster)) >= {2, 3}
    cluster.network.clear()
    cluster.propose(1, "a")
    assert cluster.core(1).configuration.is_joint
    assert not cluster.core(1).are_appends_deferred


def test_a_transfer_sends_the_target_what_it_lacks() -> None:
    cluster = deferring(*THREE)
    cluster.propose(1, "a")
    (prompt,) = recipients(cluster)
    cluster.settle()
    target = 5 - prompt
    assert cluster.core(1).transfer_leadership(replica_id(target)) is None
    cluster[1].handle_readys()
    cluster.settle()
    assert cluster.core(target).role is Role.LEADER


def test_nothing_is_deferred_without_the_setting() -> None:
    cluster = Cluster(THREE)
    cluster.elect(1)
    cluster.tick(4)
    cluster.propose(1, "a")
    assert recipients(cluster) == [2, 3]


class TestBetterCandidate:
    """A follower that refuses a pre-vote because it holds more campaigns itself (it does not wait for its timeout)."""

    def pre_vote(self, follower: LoneFollower, last: tuple[int, int], term: int = 2) -> None:
        sender = replica_id(3)
        follower.core.step(PreVoteRequest(sender, replica_id(2), Term(term - 1), 1, Term(term), entry_id(*last)))
        follower.handle_readys()

    def test_a_fresher_follower_of_three_campaigns_at_once(self) -> None:
        follower = LoneFollower(1, 1)
        self.pre_vote(follower, (1, 1))
        assert follower.core.role is Role.PRE_CANDIDATE
        assert [each.is_granted for each in follower.sent if isinstance(each, PreVoteResponse)] == [False]

    @pytest.mark.parametrize("last", [(2, 1), (3, 1)])
    def test_a_follower_that_holds_no_more_does_not(self, last: tuple[int, int]) -> None:
        follower = LoneFollower(1, 1)
        self.pre_vote(follower, last)
        assert follower.core.role is Role.FOLLOWER

    def test_a_follower_that_hears_its_leader_does_not(self) -> None:
        follower = LoneFollower(1)
        follower.append(1, entry_id(1, 1), 1)
        self.pre_vote(follower, (1, 1))
        assert follower.core.role is Role.FOLLOWER

    def test_unfit_and_quarantined_replicas_do_not(self) -> None:
        unfit, quarantined = LoneFollower(1, 1), LoneFollower(1, 1)
        unfit.core.set_unfit(True)
        quarantined.core.quarantine()
        for follower in (unfit, quarantined):
            self.pre_vote(follower, (1, 1))
            assert follower.core.role is Role.FOLLOWER

    def test_of_five_voters_it_campaigns_within_some_ticks(self) -> None:
        """Others may hold as much: random ticks keep them from splitting the votes."""
        ticks = set()
        for seed in range(30):
            follower = LoneFollower(1, 1, members=(1, 2, 3, 4, 5))
            follower.core._replica.random = Random(seed)
            self.pre_vote(follower, (1, 1))
            count = 0
            while follower.core.role is Role.FOLLOWER:
                follower.core.tick()
                follower.handle_readys()
                count += 1
            ticks.add(count)
        assert ticks == {0, 1, 2}


def test_the_follower_with_the_longer_log_wins_after_the_leaders_crash() -> None:
    """The next leader holds the acknowledged entries, also when the other follower times out first."""
    for first in (2, 3):
        cluster = deferring(*THREE)
        cluster.propose(1, "a")
        (prompt,) = recipients(cluster)
        cluster.settle()
        assert cluster.data(1) == ["a"]
        cluster[1].crash()
        for _ in range(cluster.settings.election_ticks_min):
            for number in (2, 3):
                cluster[number].core.tick()
        cluster.core(first).campaign()
        cluster[first].handle_readys()
        cluster.settle()
        leader = cluster.leader()
        assert leader is not None
        assert leader.me == replica_id(prompt), f"{first} campaigned first"
