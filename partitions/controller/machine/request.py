"""Request to the controller: a command with an id that identifies its repetitions in the log.

A request is the value of the one record of a data batch. `basis_index` is the `applied_index` of the proposer's copy
when it proposed this request for the first time; the same request may be proposed again, with the same id and basis,
for as long as its outcome is not known.

    basis_index < index of every entry that holds the request

Decoding an unknown kind or field is a `FormatError`: a replica that meets one in its log stops, because skipping it
would change its state. Pure; called by proposers, and by the replicas when they apply."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from uuid import UUID

from raftlog.errors import FormatError, InvalidArgument
from raftlog.partitions.controller.machine import commands, security_commands
from raftlog.partitions.controller.machine.commands import AlterTopicConfigs, Command, CreateTopic, check_configs
from raftlog.partitions.controller.machine.schema import NUMBER_MAX, PARTITIONS_MAX, UUID_BYTES, pack, unpack
from raftlog.types import FEATURE_LEVEL_FIRST, FEATURE_LEVEL_KNOWN, Buffer, Index

REQUEST_FORMAT: Final = 1


class CommandKind(NamedTuple):
    """Number of a command, never reused, and the lowest feature level at which it may be applied."""

    number: int
    feature_level: int = FEATURE_LEVEL_FIRST


KINDS: Final[Mapping[type[Command], CommandKind]] = {
    commands.Bootstrap: CommandKind(1),
    commands.RegisterBroker: CommandKind(2),
    commands.UpdateBroker: CommandKind(3),
    commands.RemoveBroker: CommandKind(4),
    commands.CreateTopic: CommandKind(5),
    commands.DeleteTopic: CommandKind(6),
    commands.AlterTopicConfigs: CommandKind(7),
    commands.SetAssignment: CommandKind(8),
    commands.AllocateProducerIds: CommandKind(9),
    commands.SetFeatureLevel: CommandKind(10),
    commands.SetMaintenance: CommandKind(11),
    commands.AlterClusterConfig: CommandKind(12),
    commands.AddPartitions: CommandKind(13, feature_level=2),
    security_commands.SetUserCredentials: CommandKind(14, feature_level=3),
    security_commands.DeleteUser: CommandKind(15, feature_level=3),
    security_commands.CreateAcls: CommandKind(16, feature_level=3),
    security_commands.DeleteAcls: CommandKind(17, feature_level=3),
    security_commands.AlterClientQuotas: CommandKind(18, feature_level=3),
}
_BY_NUMBER: Final = {kind.number: command for command, kind in KINDS.items()}
_ENVELOPE: Final = (int, int, bytes, int, list)


class CommandRequest(NamedTuple):
    """Command, with the id of its repetitions, and the proposer's applied index."""

    request_id: UUID
    basis_index: Index
    command: Command


def check_level(command: Command, level: int) -> None:
    """Raise `InvalidArgument` unless a cluster of this feature level may receive the command.

    Called before it is proposed, because a replica of an older release that read it in its log would have to stop."""
    needed = max(KINDS[type(command)].feature_level, command.level_needed())
    if level < needed:
        raise InvalidArgument(
            f"{type(command).__name__} needs feature level {needed}; the cluster runs at {level}: "
            "finish the upgrade first (`raftlog cluster upgrade --finish`)"
        )


def encode_request(request: CommandRequest) -> bytes:
    """Encode a request to propose. Raises `InvalidArgument` for topic settings that are unknown to this release."""
    _check_proposable(request.command)
    number = KINDS[type(request.command)].number
    return pack([REQUEST_FORMAT, number, request.request_id.bytes, request.basis_index, request.command.pack()])


def decode_request(body: Buffer) -> CommandRequest:
    """Decode a request. Raises `FormatError`, but never for a request of this or a lower feature level."""
    parts = unpack(body, "a request to the controller", PARTITIONS_MAX)
    is_list = type(parts) is list and len(parts) > 0
    if is_list and type(parts[0]) is int and parts[0] != REQUEST_FORMAT:
        raise FormatError(f"a request of format {parts[0]}; this program reads format {REQUEST_FORMAT}")
    if not is_list or tuple(map(type, parts)) != _ENVELOPE:
        raise FormatError(f"a request to the controller is not a list of {len(_ENVELOPE)} fields of the right types")
    _, number, request_id, basis_index, fields = parts
    if len(request_id) != UUID_BYTES or not 0 <= basis_index <= NUMBER_MAX:
        raise FormatError(f"a request with an id of {len(request_id)} bytes and basis {basis_index}")
    return CommandRequest(UUID(bytes=request_id), Index(basis_index), _decode_command(number, fields))


def _decode_command(number: int, fields: Any) -> Command:
    """Return the command of this number. Raises `FormatError` for an unknown number."""
    command = _BY_NUMBER.get(number)
    if command is None:
        raise FormatError(
            f"command {number} is not known to this program, which knows 1 to {max(_BY_NUMBER)} "
            f"and feature level {FEATURE_LEVEL_KNOWN}: run a newer release"
        )
    return command.unpack(fields)


def _check_proposable(command: Command) -> None:
    """Raise `InvalidArgument` for topic settings that this release cannot serve."""
    if isinstance(command, CreateTopic | AlterTopicConfigs):
        check_configs(dict(command.configs))
