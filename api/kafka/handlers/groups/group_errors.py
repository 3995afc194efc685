"""Error codes of requests about groups where they differ from those about records, and check of the coordinator.

Clients stop on codes that they do not expect from a group's coordinator. So a temporary failure has one of the codes 14
to 16, after which they wait or look for the coordinator again. An unknown outcome is 15 for requests of members, which
can be repeated without harm, and 7 for requests that commit, delete or reset offsets."""

from collections.abc import Mapping
from typing import Final

from raftlog import errors
from raftlog.api.kafka.api import KafkaRequest
from raftlog.api.kafka.error_codes import ErrorCode, code_of
from raftlog.api.kafka.permissions import group_resource
from raftlog.errors import NotLeader, RaftlogError
from raftlog.partitions.groups.names import check_group
from raftlog.partitions.groups.service import Groups
from raftlog.partitions.security.authorizer import Authorizer
from raftlog.security.permissions import AclOperation

_CODES: Final[Mapping[type[RaftlogError], ErrorCode]] = {
    errors.Unavailable: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    errors.NotLeader: ErrorCode.NOT_COORDINATOR,
    errors.CoordinatorLoading: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    errors.RebalanceInProgress: ErrorCode.REBALANCE_IN_PROGRESS,
    errors.GroupFull: ErrorCode.GROUP_MAX_SIZE_REACHED,
    errors.ConcurrentTransactions: ErrorCode.CONCURRENT_TRANSACTIONS,
    errors.UnstableOffsets: ErrorCode.UNSTABLE_OFFSET_COMMIT,
    errors.StorageError: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
"""Codes of errors in requests about groups; other errors have the code of `error_codes`."""


def authorize_group(authorizer: Authorizer, request: KafkaRequest, operation: AclOperation, group: str) -> None:
    """Raise `GroupNotAuthorized` unless the caller of a request may perform an operation on a group."""
    if authorizer.is_on:
        authorizer.authorize(request.caller, operation, group_resource(group))


def check_coordinator(groups: Groups, group: str) -> None:
    """Raise `NotLeader` unless this node coordinates the group, and `InvalidGroup` for an invalid name."""
    check_group(group)
    if not groups.is_coordinator_of(group):
        raise NotLeader(f"this broker does not coordinate group {group}")


def group_code(error: RaftlogError) -> ErrorCode:
    """Return the error code for a request that reads or changes offsets, or that concerns whole groups."""
    if error.outcome == "unknown":
        return code_of(error)
    for kind in type(error).__mro__:
        found = _CODES.get(kind)
        if found is not None:
            return found
    return code_of(error)


def member_code(error: RaftlogError) -> ErrorCode:
    """Return the error code for a request of a group member: join, sync, heartbeat or leave.

    A lost answer and a coordinator that loads are 15: all of these requests can be repeated, and clients do not expect
    7 or, in answers to heartbeats, 14."""
    if error.outcome == "unknown" or isinstance(error, errors.CoordinatorLoading):
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return group_code(error)
