"""Each property rejects a history that violates it, and accepts a similar one that does not."""

import uuid
from typing import Any

import pytest

from jepsen.simulation.memory_log import MemoryLog
from jepsen.simulation.properties import GroupProperties, RecoveredState, Replica, ReplicaState, configuration_error
from jepsen.simulation.verdicts import PropertyBroken
from raftlog.raft import Configuration, Entry, EntryId, EntryKind, Ready, ReplicaId, Role
from raftlog.raft.messages import AppendResponse, InstallResponse, VoteRequest, VoteResponse
from raftlog.raft.ready import IndexRange, RoleState
from raftlog.records import build_batch, stamp
from raftlog.types import Index, NodeId, Offset, Term


def replica_id(number: int) -> ReplicaId:
    return ReplicaId(NodeId(number), uuid.UUID(int=number))


VOTERS = tuple(map(replica_id, (1, 2, 3)))
FIRST = Configuration(Index(1), VOTERS)


def entry(index: int, term: int, value: bytes = b"v", *, offset: int | None = None) -> Entry:
    """Return an entry with one record; without an offset, offsets count from 0 at index 1."""
    batch = build_batch([value], now_ms=0)
    stamp(batch, Offset(index - 1 if offset is None else offset), Term(term))
    return Entry(Index(index), Term(term), EntryKind.DATA, len(batch), batch)


class Log(MemoryLog):
    """Log whose data entries have dense offsets."""

    def offset_of(self, index: Index) -> Offset:
        return Offset(index - 1)


class Member:
    """Replica as seen by the properties: a log, and Readys made by hand."""

    def __init__(self, properties: GroupProperties, number: int) -> None:
        self.properties = properties
        self.me = replica_id(number)
        self.log = Log()
        self.lives = 0
        self.restart(self.log)

    @property
    def replica(self) -> Replica:
        return Replica(self.me, self.lives)

    def restart(self, log: Log, *, committed: int = 0, term: int = 1, **said: Any) -> None:
        self.lives += 1
        self.log = log
        entries = log.entries_from_start()
        configuration, voting_position = said.pop("configuration", FIRST), said.pop("voting_position", None)
        at = Index(committed), Offset(committed), Term(term)
        found = RecoveredState(entries, *at, configuration, voting_position, **said)
        self.properties.observe_restart(self.replica, log, found)

    def ready(self, *entries: Entry, cut_to: int | None = None, term: int = 1, **said: Any) -> None:
        """Change the log, and let the properties observe the Ready of this change."""
        if cut_to is not None:
            self.log.cut_to(Index(cut_to))
        if entries:
            self.log.append(entries)
        watermark = said.pop("watermark", None)
        role = said.pop("role", None)
        committed = Index(said.pop("committed", 0))
        ready = Ready(
            number=1,
            hard_state=None,
            cut_to=None if cut_to is None else Index(cut_to),
            entries=entries,
            must_sync=bool(entries),
            messages_now=(),
            messages_once_durable=(),
            committed_index=committed,
            apply=said.pop("apply", None),
            reads=(),
            reads_failed=(),
            role_state=None if role is None else RoleState(role, Term(term), None, "told to"),
            install_offer=None,
        )
        assert not said, said
        now = ReplicaState(Term(term), role is Role.LEADER, FIRST, Offset(0 if watermark is None else watermark))
        self.properties.observe_ready(self.replica, self.log, ready, now)

    def become_leader(self, term: int, *entries: Entry, **said: Any) -> None:
        self.ready(*entries, term=term, role=Role.LEADER, **said)

    def acknowledge(self, index: int, term: int = 1, now: int | None = None) -> None:
        to = replica_id(1)
        answer = AppendResponse(self.me, to, Term(term), 1, True, Index(index), Index(index), Index(index))
        self.properties.observe_message(answer, self.log, Term(now or term))

    def send_vote(self, term: int, candidate: int) -> None:
        answer = VoteResponse(self.me, replica_id(candidate), Term(term), 1, True)
        self.properties.observe_message(answer, self.log, Term(term))


class Group:
    """Three members with the same three entries of term 1, two of them committed."""

    def __init__(self) -> None:
        self.properties = GroupProperties("t/0")
        self.members = [Member(self.properties, number) for number in (1, 2, 3)]
        self.entries = [entry(1, 1), entry(2, 1), entry(3, 1)]
        leader, *followers = self.members
        leader.become_leader(1, *self.entries)
        for follower in followers:
            follower.ready(*self.entries)
            follower.acknowledge(3)
        leader.become_leader(1, committed=2, watermark=2)
        for follower in followers:
            follower.ready(committed=2, watermark=2)


@pytest.fixture
def group() -> Group:
    return Group()


def expect_violation(name: str) -> Any:
    return pytest.raises(PropertyBroken, match=f"^{name}:")


def test_two_leaders_of_one_term_are_a_violation(group: Group) -> None:
    with expect_violation("election-safety"):
        group.members[1].become_leader(1)


def test_two_entries_with_one_index_and_term_are_a_violation(group: Group) -> None:
    group.members[1].ready(cut_to=2, term=2, committed=2, watermark=2)
    with expect_violation("log-matching"):
        group.members[1].ready(entry(3, 1, b"other"), committed=2, watermark=2)


def test_one_entry_after_different_predecessors_is_a_violation(group: Group) -> None:
    for member, before in ((group.members[0], 1), (group.members[1], 2)):
        member.ready(cut_to=2, term=3, committed=2, watermark=2)
        if before == 1:
            member.ready(entry(3, 1), entry(4, 3), committed=2, watermark=2)
        else:
            with expect_violation("log-matching"):
                member.ready(entry(3, 2), entry(4, 3), committed=2, watermark=2)


def test_a_leader_without_a_committed_entry_is_a_violation(group: Group) -> None:
    other = Member(group.properties, 4)
    with expect_violation("leader-completeness"):
        other.become_leader(2, entry(1, 1))


def test_a_leader_of_an_older_term_may_lack_a_committed_entry(group: Group) -> None:
    other = Member(group.properties, 4)
    other.become_leader(0)


def test_two_committed_entries_at_one_index_are_a_violation(group: Group) -> None:
    other = Member(group.properties, 4)
    with expect_violation("state-machine-safety"):
        other.ready(entry(1, 1), entry(2, 2), committed=2)


def test_committed_entries_are_not_cut(group: Group) -> None:
    with expect_violation("committed-cut"):
        group.members[1].ready(cut_to=1, term=2)


def test_offsets_are_dense(group: Group) -> None:
    leader = group.members[0]
    leader.become_leader(1, entry(4, 1, offset=7), committed=2, watermark=2)
    group.members[1].ready(entry(4, 1, offset=7), committed=2, watermark=2)
    group.members[1].acknowledge(4)
    with expect_violation("dense-offsets"):
        leader.become_leader(1, committed=4, watermark=4)


def test_a_commit_needs_a_quorum(group: Group) -> None:
    leader = group.members[0]
    leader.become_leader(1, entry(4, 1), committed=2, watermark=2)
    with expect_violation("commit-without-quorum"):
        leader.become_leader(1, committed=4, watermark=2)


def test_a_deposed_leader_may_commit_with_late_acknowledgements(group: Group) -> None:
    """The followers that acknowledged the entry have followed a later leader since."""
    leader, *followers = group.members
    leader.become_leader(1, entry(4, 1), committed=2, watermark=2)
    for follower in followers:
        follower.ready(entry(4, 1), committed=2, watermark=2)
        follower.acknowledge(4)
        follower.acknowledge(4, term=2)
    leader.become_leader(1, committed=4, watermark=2)


def test_acknowledgements_of_an_earlier_term_do_not_count(group: Group) -> None:
    leader = group.members[0]
    with expect_violation("old-term-committed"):
        leader.become_leader(2, committed=3, watermark=2)


def test_a_leader_that_counted_itself_keeps_the_entry(group: Group) -> None:
    leader = group.members[0]
    leader.become_leader(1, entry(4, 1), committed=2, watermark=2)
    group.members[1].ready(entry(4, 1), committed=2, watermark=2)
    group.members[1].acknowledge(4)
    leader.become_leader(1, committed=4, watermark=2)
    with expect_violation("durable-lost"):
        leader.restart(Log(group.entries), committed=2)


def test_the_high_watermark_of_a_process_never_falls(group: Group) -> None:
    with expect_violation("high-watermark-back"):
        group.members[1].ready(committed=2, watermark=1)


def test_the_high_watermark_may_begin_lower_after_a_restart(group: Group) -> None:
    group.members[1].restart(group.members[1].log, committed=1)


def test_visible_entries_must_be_committed(group: Group) -> None:
    with expect_violation("uncommitted-visible"):
        group.members[1].ready(committed=2, watermark=3)


def test_applied_entries_must_be_committed(group: Group) -> None:
    with expect_violation("applied-uncommitted"):
        group.members[1].ready(committed=2, watermark=2, apply=IndexRange(Index(3), Index(3)))


def test_acknowledged_entries_must_be_committed_and_visible(group: Group) -> None:
    properties, replica = group.properties, group.members[0].replica
    both = Offset(1), Offset(2)
    properties.observe_acknowledgement(replica, Term(1), Index(2), Index(2), both, Offset(2))
    with expect_violation("acknowledged-invisible"):
        properties.observe_acknowledgement(replica, Term(1), Index(2), Index(2), both, Offset(1))
    with expect_violation("acknowledged-uncommitted"):
        properties.observe_acknowledgement(replica, Term(1), Index(3), Index(3), (Offset(2), Offset(3)), Offset(3))
    with expect_violation("acknowledged-elsewhere"):
        properties.observe_acknowledgement(replica, Term(1), Index(2), Index(2), (Offset(0), Offset(1)), Offset(2))


def test_acknowledgements_and_votes_survive_a_restart(group: Group) -> None:
    follower = group.members[1]
    follower.restart(Log(group.entries), committed=2)
    with expect_violation("durable-lost"):
        follower.restart(Log(group.entries[:2]), committed=2)


def test_a_replica_may_lose_its_end_while_its_votes_respect_it(group: Group) -> None:
    follower = group.members[1]
    held = EntryId(Index(3), Term(1))
    follower.restart(Log(group.entries[:2]), committed=2, voting_position=held)
    follower.restart(Log(group.entries[:2]), committed=2, voting_position=held)  # again, and not repaired yet
    with expect_violation("durable-lost"):
        follower.restart(Log(group.entries[:2]), committed=2, voting_position=EntryId(Index(2), Term(1)))


def test_a_later_leader_may_cut_entries_acknowledged_to_an_earlier_one(group: Group) -> None:
    follower = group.members[1]
    with expect_violation("durable-cut"):
        follower.ready(cut_to=2, term=1, committed=2, watermark=2)
    group = Group()
    follower = group.members[1]
    follower.ready(cut_to=2, term=2, committed=2, watermark=2)
    follower.restart(Log(group.entries[:2]), committed=2, term=2)


def test_an_answer_delayed_into_a_later_term_is_no_acknowledgement() -> None:
    group = Group()
    follower = group.members[1]
    follower.ready(entry(4, 1), committed=2, watermark=2)
    follower.acknowledge(4, term=1, now=2)
    follower.restart(Log(group.entries), committed=2)


def test_an_installed_log_counts_as_acknowledged(group: Group) -> None:
    follower = Member(group.properties, 4)
    follower.log.replace(EntryId(Index(2), Term(1)), group.entries[2:])
    boundary = EntryId(Index(2), Term(1))
    answer = InstallResponse(follower.me, replica_id(1), Term(1), 1, boundary, True, Index(3))
    group.properties.observe_message(answer, follower.log, Term(1))
    with expect_violation("durable-lost"):
        follower.restart(Log())


def test_a_vote_is_for_one_candidate(group: Group) -> None:
    voter = group.members[1]
    voter.send_vote(2, 1)
    voter.send_vote(2, 1)
    with expect_violation("voted-twice"):
        voter.send_vote(2, 3)


def test_a_candidate_votes_for_itself(group: Group) -> None:
    voter = group.members[1]
    request = VoteRequest(voter.me, replica_id(1), Term(2), 1, EntryId(Index(3), Term(1)))
    group.properties.observe_message(request, voter.log, Term(2))
    with expect_violation("voted-twice"):
        voter.send_vote(2, 3)


def test_terms_never_fall(group: Group) -> None:
    voter = group.members[1]
    voter.send_vote(3, 1)
    voter.restart(voter.log, committed=2, term=3)
    with expect_violation("term-back"):
        voter.restart(voter.log, committed=2, term=2)


def test_a_restarted_replica_holds_the_newest_committed_configuration(group: Group) -> None:
    leader, follower, _ = group.members
    changed = Configuration(Index(4), (*VOTERS, replica_id(4)))
    follows = entry(4, 1)._replace(configuration=changed)
    for member in group.members:
        member.ready(follows, watermark=2)
        member.acknowledge(4)
    follower.restart(follower.log, committed=2)
    leader.become_leader(1, committed=4, watermark=4)
    follower.restart(follower.log, committed=3)
    follower.restart(follower.log, committed=4, configuration=changed)
    follower.restart(follower.log, committed=4, is_damaged=True)
    with expect_violation("old-configuration"):
        follower.restart(follower.log, committed=4)
    with expect_violation("old-configuration"):
        follower.restart(follower.log, committed=4, configuration=changed._replace(voters=VOTERS))


def test_a_recovered_log_holds_what_was_written(group: Group) -> None:
    follower = group.members[1]
    with expect_violation("recovered-other-bytes"):
        follower.restart(Log([*group.entries[:2], entry(3, 1, b"other")]), committed=2)
    with expect_violation("recovered-unknown-entry"):
        follower.restart(Log([*group.entries, entry(4, 9)]), committed=2)
    with expect_violation("recovered-uncommitted"):
        follower.restart(Log(group.entries), committed=3)


@pytest.mark.parametrize(
    ("before", "after", "committed", "is_wrong"),
    [
        (FIRST, Configuration(Index(5), VOTERS, (replica_id(4),)), 1, False),
        (FIRST, Configuration(Index(5), VOTERS, (replica_id(4),)), 0, True),
        (FIRST, Configuration(Index(5), VOTERS[:2], (), VOTERS), 1, False),
        (FIRST, Configuration(Index(5), VOTERS[:2]), 1, True),
        (Configuration(Index(5), VOTERS[:2], (), VOTERS), Configuration(Index(6), VOTERS[:2]), 5, False),
        (Configuration(Index(5), VOTERS[:2], (), VOTERS), Configuration(Index(6), VOTERS[:2]), 4, True),
        (Configuration(Index(5), VOTERS[:2], (), VOTERS), Configuration(Index(6), VOTERS), 5, True),
    ],
)
def test_configurations_change_one_step_at_a_time(
    before: Configuration, after: Configuration, committed: int, is_wrong: bool
) -> None:
    assert (configuration_error(before, after, Index(committed)) is not None) == is_wrong
