"""Bugs in membership changes."""

from jepsen.planted.patch import replace_method
from raftlog.raft.configuration import Configuration, ConfigurationChange, change_error
from raftlog.raft.leader import Leader
from raftlog.raft.ready import Accepted, RefusalReason, RefusedProposal
from raftlog.types import Index


def begin_two_changes() -> None:
    """Plant a bug: a leader begins a configuration change while another is pending, as if that were complete."""

    def propose_at_once(self: Leader, change: ConfigurationChange) -> Accepted | RefusedProposal:
        """Append the configuration without waiting for a pending change; return the proposal's result."""
        replica = self._replica
        wrong = change_error(change)
        if not self.has_own_term_commit or wrong:
            return self._refuse(RefusalReason.INVALID_CHANGE, wrong or "")
        current = replica.configuration
        plain = Configuration(current.index, current.voters, current.learners)
        index = self._append_configuration(plain.begin_change(change, Index(replica.log.last_index + 1)))
        return Accepted(replica.term, index, index)

    replace_method(Leader, "propose_configuration", propose_at_once)


def leave_joint_early() -> None:
    """Plant a bug: a leader leaves a joint configuration before that configuration is committed."""

    def leave_uncommitted(self: Leader) -> bool:
        """Append the exit from a joint configuration, committed or not; return whether there was a joint one."""
        replica = self._replica
        current = replica.configuration
        if not current.is_joint:
            return False
        self._append_configuration(current.leave_joint(Index(replica.log.last_index + 1)))
        return True

    replace_method(Leader, "_leave_joint_if_committed", leave_uncommitted)
