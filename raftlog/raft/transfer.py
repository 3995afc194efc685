"""Leadership transfer in progress (thesis 3.10): its target and its deadline.

While it lasts the leader refuses proposals, so that the target can reach the log's end; then it asks the target to
campaign at once. It aborts the transfer after an election timeout. Reads use no leases, so none has to end first."""

from raftlog.raft.configuration import ReplicaId
from raftlog.raft.messages import TimeoutNow
from raftlog.raft.progress import FollowerProgress, ProgressState
from raftlog.raft.ready import RefusalReason
from raftlog.raft.replica import NEVER, RaftReplica


class Transfer:
    """State of a leader's leadership transfer; `target` is None when there is none."""

    __slots__ = ("abort_tick", "target")

    def __init__(self) -> None:
        self.target: ReplicaId | None = None
        self.abort_tick = NEVER

    def begin(self, target: ReplicaId, abort_tick: int) -> None:
        """Begin a transfer to `target`, which is aborted at tick `abort_tick`."""
        assert self.target is None, f"transfer to {self.target} is under way"
        self.target, self.abort_tick = target, abort_tick

    def abort(self) -> None:
        """End the transfer without a change of leader."""
        self.target, self.abort_tick = None, NEVER

    def request_campaign_if_caught_up(self, replica: RaftReplica, progress: dict[ReplicaId, FollowerProgress]) -> bool:
        """Ask the target to campaign if it holds all entries; return whether it was asked.

        Aborts the transfer when the target is no member any more."""
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


def transfer_refusal(
    replica: RaftReplica, target: ReplicaId, progress: FollowerProgress | None
) -> RefusalReason | None:
    """Return the reason against a transfer to `target`, or None.

    The target must be a voter, answer, receive pipelined appends, and hold the current configuration entry durably."""
    configuration = replica.configuration
    if progress is None or target not in configuration.voters:
        return RefusalReason.NO_SUCH_VOTER
    is_near = progress.state is ProgressState.REPLICATE and progress.is_active
    if not is_near or progress.match_index < configuration.index:
        return RefusalReason.NOT_CAUGHT_UP
    return None
