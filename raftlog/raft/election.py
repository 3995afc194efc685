"""Who gets a vote: the judgement of pre-votes and votes, the same in every role.

Refused are: candidates of an older term; candidates whose log is less fresh than ours (thesis 3.6.1); rivals of a
leader that was heard lately, unless that leader asked for the election (4.2.3, 9.6); and candidates that are no voters
here. The last rule must not lock out new members: a candidate whose log is fresher than ours may know a configuration
that we do not, so it is judged by its log alone. One whose log ends where ours does has our configuration, and one
whose log is less fresh gets nothing anyway. A replica that is no voter itself follows the same rule, so learners vote
only for somebody who may know that they are learners no longer.
"""

from raftlog.raft.entry import is_as_fresh, is_fresher
from raftlog.raft.messages import PreVoteRequest, PreVoteResponse, VoteRequest, VoteResponse
from raftlog.raft.replica import RaftReplica


def may_stand(replica: RaftReplica, request: PreVoteRequest | VoteRequest) -> bool:
    """Whether the candidate can belong to the group at all, in a configuration known here or in a later one."""
    configuration = replica.configuration
    if configuration.has_voter(request.sender) and configuration.has_voter(replica.me):
        return True
    return is_fresher(request.last, replica.log.last_id)


def would_vote(replica: RaftReplica, request: PreVoteRequest) -> bool:
    """A pre-vote: nothing is promised, so a vote already given in this term does not matter."""
    return request.campaign_term > replica.term and is_as_fresh(request.last, replica.vote_floor)


def maybe_vote(replica: RaftReplica, request: VoteRequest) -> bool:
    """Give the vote of this term, or repeat it; it is told only once it is durable."""
    assert request.term == replica.term, f"vote asked for term {request.term} in term {replica.term}"
    if replica.vote not in (None, request.sender) or not is_as_fresh(request.last, replica.vote_floor):
        return False
    replica.set_hard_state(replica.term, request.sender)
    return True


def answer(replica: RaftReplica, request: PreVoteRequest | VoteRequest, is_granted: bool) -> None:
    """Send the answer; in a refusal the candidate learns of our term."""
    me, to, sequence = replica.me, request.sender, request.sequence
    if type(request) is PreVoteRequest:
        replica.send(PreVoteResponse(me, to, replica.term, sequence, request.campaign_term, is_granted))
    else:
        replica.send(VoteResponse(me, to, replica.term, sequence, is_granted))
