"""Bugs in membership changes."""

from jepsen.planted.patch import replace_method
from raftlog.raft.configuration import Configuration, ConfigurationChange, change_error
from raftlog.raft.leader import Leader
from raftlog.raft.ready import Accepted, RefusalReason, RefusedProposal
from raftlog.types import Index


def begin_two_changes() -> None:
    """Begin a second configuration change before the first is finished, based on the older configuration."""

    def propose(self: Leader, change: ConfigurationChange) -> Accepted | RefusedProposal:
        replica = self._replica
        wrong = change_error(change)
        if not self.has_own_term_commit or wrong:
            return self._refuse(RefusalReason.INVALID_CHANGE, wrong or "")
        current = replica.configuration
        plain = Configuration(current.index, current.voters, current.learners)
        index = self._append_configuration(plain.begin_change(change, Index(replica.log.last_index + 1)))
        return Accepted(replica.term, index, index)

    replace_method(Leader, "propose_configuration", propose)


def leave_joint_early() -> None:
    """Propose the exit from a joint configuration before the joint one is committed."""

    def maybe_leave(self: Leader) -> bool:
        replica = self._replica
        current = replica.configuration
        if not current.is_joint:
            return False
        self._append_configuration(current.leave_joint(Index(replica.log.last_index + 1)))
        return True

    replace_method(Leader, "_leave_joint_if_committed", maybe_leave)
