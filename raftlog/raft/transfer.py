"""A hand-over of leadership in progress (thesis 3.10): to whom, until when.

While it lasts the leader takes no proposals, so that the target can reach the log's end; then it asks the target to
campaign at once. It gives up after an election timeout. No lease exists that would have to be dropped first.
"""

from raftlog.raft.configuration import ReplicaId
from raftlog.raft.messages import TimeoutNow
from raftlog.raft.progress import FollowerProgress, ProgressState
from raftlog.raft.ready import RefusalReason
from raftlog.raft.replica import NEVER, RaftReplica


class Transfer:
    """Whether the leader is handing over."""

    __slots__ = ("abort_tick", "target")

    def __init__(self) -> None:
        self.target: ReplicaId | None = None
        self.abort_tick = NEVER

    def begin(self, target: ReplicaId, abort_tick: int) -> None:
        assert self.target is None, f"transfer to {self.target} is under way"
        self.target, self.abort_tick = target, abort_tick

    def abort(self) -> None:
        self.target, self.abort_tick = None, NEVER

    def maybe_ask(self, replica: RaftReplica, progress: dict[ReplicaId, FollowerProgress]) -> bool:
        """Ask the target to campaign if it holds all that we do."""
        if self.target is None:
            return False
        target = progress.get(self.target)
        if target is None:
            self.abort()
            return False
        if target.match_index < replica.log.last_index:
            return False
        replica.send(TimeoutNow(replica.me, self.target, replica.term))
        return True


def why_no_target(replica: RaftReplica, target: ReplicaId, progress: FollowerProgress | None) -> RefusalReason | None:
    """Whether leadership can go to `target`: a voter that holds the configuration and keeps up with appends."""
    configuration = replica.configuration
    if progress is None or target not in configuration.voters:
        return RefusalReason.NO_SUCH_VOTER
    is_near = progress.state is ProgressState.REPLICATE and progress.is_active
    if not is_near or progress.match_index < configuration.index:
        return RefusalReason.NOT_CAUGHT_UP
    return None
