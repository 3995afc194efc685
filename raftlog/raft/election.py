"""Rules for granting pre-votes and votes, the same in every role.

A vote is refused to candidates of an older term; to candidates with a less up-to-date log than this one (thesis
3.6.1); to rivals of a leader in recent contact, unless that leader requested the election (4.2.3, 9.6); and to
candidates that are no voters here. The last rule must not lock out new members: a candidate with a more up-to-date log
may have a configuration that this replica lacks, so only its log counts. A log that ends at the same entry has the same
configuration, and a less up-to-date one is refused anyway. A replica that is no voter itself follows the same rule, so
learners vote only for candidates whose log may contain their promotion.

The election timeout is drawn by `RaftReplica.draw_election_ticks`; its bounds are in `partitions/node/settings.py`."""

from raftlog.raft.entry import is_at_least_as_up_to_date, is_more_up_to_date
from raftlog.raft.messages import PreVoteRequest, PreVoteResponse, VoteRequest, VoteResponse
from raftlog.raft.replica import RaftReplica


def is_eligible(replica: RaftReplica, request: PreVoteRequest | VoteRequest) -> bool:
    """Return whether the candidate is a voter in this replica's configuration, or may be a voter in a later one."""
    configuration = replica.configuration
    if configuration.has_voter(request.sender) and configuration.has_voter(replica.me):
        return True
    return is_more_up_to_date(request.last, replica.log.last_id)


def grants_pre_vote(replica: RaftReplica, request: PreVoteRequest) -> bool:
    """Return whether a pre-vote is granted; a pre-vote is no promise, so an earlier vote does not matter."""
    return request.campaign_term > replica.term and is_at_least_as_up_to_date(request.last, replica.vote_floor)


def is_better_candidate(replica: RaftReplica, request: PreVoteRequest) -> bool:
    """Return whether this replica should campaign itself: it may, is not unfit, and has a more up-to-date log.

    If so it may campaign at once: the pre-candidate's election timeout has passed, and the pre-candidate cannot get
    this replica's vote."""
    return replica.may_campaign() and not replica.is_unfit and is_more_up_to_date(replica.log.last_id, request.last)


def decide_vote(replica: RaftReplica, request: VoteRequest) -> bool:
    """Grant the vote of this term if it is free and the candidate's log suffices; return whether it is granted.

    A repeated request gets the same answer. The answer is sent only once the vote is durable."""
    assert request.term == replica.term, f"vote asked for term {request.term} in term {replica.term}"
    if replica.vote not in (None, request.sender) or not is_at_least_as_up_to_date(request.last, replica.vote_floor):
        return False
    replica.set_hard_state(replica.term, request.sender)
    return True


def send_answer(replica: RaftReplica, request: PreVoteRequest | VoteRequest, is_granted: bool) -> None:
    """Send the answer to a request; a refusal carries the current term to the candidate."""
    me, to, sequence = replica.me, request.sender, request.sequence
    if type(request) is PreVoteRequest:
        replica.send(PreVoteResponse(me, to, replica.term, sequence, request.campaign_term, is_granted))
    else:
        replica.send(VoteResponse(me, to, replica.term, sequence, is_granted))
