"""State machine of the controller: applies requests in the order of the log, and remembers their answers.

    forgotten_index < index of every answer that is remembered ≤ applied_index

`apply` is a pure function of the state and the request; every replica that applied the same requests has the same
`state_hash()`. A request is applied once, however often the log contains it: its answer, a refusal too, is
remembered by its id, for the last `ANSWERS_MAX` requests. An older request is distinguished from a new one by the
applied index of its proposer (`basis_index`): no entry at or below that index contains the request, so unless an
answer above it was forgotten, an unknown id means that it was never applied.

Pure and single-threaded. Called by the local copy, which applies the controller's log."""

from collections.abc import Callable
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from raftlog.errors import FormatError, InvalidArgument, OutcomeUnknown, RaftlogError, Unavailable
from raftlog.partitions.controller.machine import (
    broker_rules,
    cluster_rules,
    commands,
    maintenance_rules,
    security_commands,
    security_rules,
    topic_rules,
)
from raftlog.partitions.controller.machine.cluster import ClusterState
from raftlog.partitions.controller.machine.commands import Bootstrap, Command
from raftlog.partitions.controller.machine.errors import MESSAGE_CHARACTERS_MAX, as_number
from raftlog.partitions.controller.machine.request import CommandRequest, check_level
from raftlog.partitions.controller.machine.rows import AnsweredRequest
from raftlog.partitions.controller.machine.schema import pack
from raftlog.partitions.controller.machine.table import DIGEST_BYTES
from raftlog.types import Index

STATE_NUMBERS: Final = ("applied_index", "forgotten_index", "feature_level", "next_producer_id")
"""Names of all numbers of the state."""
ANSWERS_MAX: Final = 4096
"""Limit of remembered answers; the same in all replicas: another number needs another feature level."""

_RULES: Final[dict[type[Command], Callable[[ClusterState, Any, Index], int]]] = {
    commands.Bootstrap: broker_rules.bootstrap,
    commands.RegisterBroker: broker_rules.register,
    commands.UpdateBroker: broker_rules.update,
    commands.RemoveBroker: broker_rules.remove,
    commands.CreateTopic: topic_rules.create,
    commands.DeleteTopic: topic_rules.delete,
    commands.AlterTopicConfigs: topic_rules.alter,
    commands.SetAssignment: topic_rules.set_assignment,
    commands.AllocateProducerIds: broker_rules.allocate_producer_ids,
    commands.SetFeatureLevel: broker_rules.set_feature_level,
    commands.SetMaintenance: maintenance_rules.set_maintenance,
    commands.AlterClusterConfig: cluster_rules.alter,
    commands.AddPartitions: topic_rules.add_partitions,
    security_commands.SetUserCredentials: security_rules.set_credentials,
    security_commands.DeleteUser: security_rules.delete_user,
    security_commands.CreateAcls: security_rules.create_acls,
    security_commands.DeleteAcls: security_rules.delete_acls,
    security_commands.AlterClientQuotas: security_rules.alter_quotas,
}


class CommandAnswer(NamedTuple):
    """Answer to a request: a number (a version, or the first producer id), or the error of the refusal.

    `is_repeated`: the state was not changed now, because the request was answered before, or its answer is
    forgotten."""

    value: int
    error: RaftlogError | None = None
    is_repeated: bool = False

    def result(self) -> int:
        """Return the number, or raise the error."""
        if self.error is not None:
            raise self.error
        return self.value


class ControllerState(ClusterState):
    """State of the controller, and its transitions."""

    def __init__(self) -> None:
        """Create the state before the first entry."""
        super().__init__()
        self.applied_index = Index(0)
        """Index of the last applied entry; advanced by `apply` and `advance`."""
        self.forgotten_index = Index(0)
        """Index of the newest request whose answer is no longer remembered."""

    def apply(self, request: CommandRequest, index: Index) -> CommandAnswer:
        """Apply the request in the entry at `index` wholly, or refuse it and remember only the answer.

        Raises `FormatError`, with nothing changed, when the cluster goes to a feature level above this release; the
        replica then has to stop."""
        assert index > self.applied_index, f"entry {index} comes after {self.applied_index} was applied"
        before = self.answered.get(request.request_id)
        if before is not None:
            self.applied_index = index
            return CommandAnswer(before.value, before.failure(), is_repeated=True)
        if request.basis_index < self.forgotten_index:
            self.applied_index = index
            return CommandAnswer(0, _forgotten_error(request, self.forgotten_index), is_repeated=True)
        answer = self._decide(request, index)
        self._remember(request, answer, index)
        self.applied_index = index
        return answer

    def advance(self, index: Index) -> None:
        """Advance to `index`, because the entries up to it were applied or contain no request."""
        assert index >= self.applied_index, f"applied goes back from {self.applied_index} to {index}"
        self.applied_index = index

    def _decide(self, request: CommandRequest, index: Index) -> CommandAnswer:
        """Return the answer to a request, or the error that refuses it; raises `FormatError`."""
        try:
            self._check_applicable(request, index)
            return CommandAnswer(_RULES[type(request.command)](self, request.command, index))
        except FormatError:
            raise
        except RaftlogError as error:
            return CommandAnswer(0, error)

    def _check_applicable(self, request: CommandRequest, index: Index) -> None:
        """Raise unless a request may be applied in the entry at `index`, at the cluster's feature level."""
        command = type(request.command)
        if request.basis_index >= index:
            raise InvalidArgument(f"a request in entry {index} cannot have been proposed after {request.basis_index}")
        if command is Bootstrap:
            return
        if self.bootstrap is None:
            raise Unavailable(f"{command.__name__} has to wait until the cluster is bootstrapped")
        check_level(request.command, self.feature_level)

    def _remember(self, request: CommandRequest, answer: CommandAnswer, index: Index) -> None:
        """Store the answer for repetitions of the request; drop the oldest answers beyond `ANSWERS_MAX`."""
        number = as_number(answer.error) if answer.error else 0
        message = str(answer.error or "")[:MESSAGE_CHARACTERS_MAX]
        self.answered.put(AnsweredRequest(request.request_id, index, answer.value, number, message))
        if len(self.answered) > ANSWERS_MAX:
            oldest = self.answered.first()
            self.answered.remove(oldest.request_id)
            self.forgotten_index = oldest.version

    def state_hash(self) -> bytes:
        """Return a hash of 16 bytes that is equal for equal states, in constant time."""
        found = {**self.scalars(), **{table.name: table.digest for table in self.tables() if len(table)}}
        return blake2b(pack(found), digest_size=DIGEST_BYTES).digest()

    def scalars(self) -> dict[str, Any]:
        """Return all values outside of tables by name, without zero and missing ones.

        Later releases can have more of them."""
        numbers = {name: getattr(self, name) for name in STATE_NUMBERS if getattr(self, name)}
        return numbers if self.bootstrap is None else {**numbers, "bootstrap": self.bootstrap.pack()}


def _forgotten_error(request: CommandRequest, forgotten_index: Index) -> OutcomeUnknown:
    """Return the error for a repeated request whose answer may be forgotten."""
    return OutcomeUnknown(
        f"request {request.request_id} was first proposed after index {request.basis_index}, and answers up to index "
        f"{forgotten_index} are forgotten: whether it was done can no longer be told; it is not done now"
    )
