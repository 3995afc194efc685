"""Handlers of DescribeGroups 0 to 5, ListGroups 0 to 4 and DeleteGroups 0 to 2."""

from typing import Any, Final

from raftlog.api.kafka.api import NO_DEADLINE_MS, ApiKey, KafkaApi, KafkaRequest
from raftlog.api.kafka.error_codes import ErrorCode
from raftlog.api.kafka.handlers.groups.group_errors import authorize_group, check_coordinator, group_code
from raftlog.api.kafka.permissions import authorized_operations, group_resource
from raftlog.api.kafka.wire.schemas import answer_class
from raftlog.errors import RaftlogError, UnknownGroup
from raftlog.partitions.deadline import Deadline, deadline_in
from raftlog.partitions.groups.results import GroupDetails
from raftlog.partitions.groups.service import Groups
from raftlog.partitions.groups.states import ConsumerGroupState
from raftlog.partitions.security.authorizer import Authorizer
from raftlog.security.permissions import AclOperation

_STABLE: Final = ConsumerGroupState.STABLE.value
_DEAD: Final = ConsumerGroupState.DEAD.value


class AdministrationHandlers:
    """Handlers of requests about whole consumer groups."""

    def __init__(self, groups: Groups, authorizer: Authorizer) -> None:
        self._groups, self._authorizer = groups, authorizer

    def apis(self) -> list[KafkaApi]:
        """Return the APIs that this handler serves, with their versions."""
        return [
            KafkaApi(ApiKey.DESCRIBE_GROUPS, (0, 5), self.describe_groups),
            KafkaApi(ApiKey.LIST_GROUPS, (0, 4), self.list_groups),
            KafkaApi(ApiKey.DELETE_GROUPS, (0, 2), self.delete_groups),
        ]

    async def describe_groups(self, request: KafkaRequest) -> Any:
        """Return descriptions of groups; an unknown group has the state Dead and no error."""
        deadline = deadline_in(NO_DEADLINE_MS)
        answer = answer_class(ApiKey.DESCRIBE_GROUPS)
        groups = [
            await self._describe(answer.DescribedGroup, name, request, deadline) for name in request.message.groups
        ]
        if request.message.include_authorized_operations:
            for each in groups:
                if each.error_code != ErrorCode.GROUP_AUTHORIZATION_FAILED:
                    group = group_resource(each.group_id)
                    each.authorized_operations = authorized_operations(self._authorizer, request.caller, group)
        return answer(groups=groups)

    async def _describe(self, kind: Any, name: str, request: KafkaRequest, deadline: Deadline) -> Any:
        """Return the row of one consumer group, with an error code or the state Dead if it is not found."""
        code, state, found = ErrorCode.NONE, "", None
        try:
            authorize_group(self._authorizer, request, AclOperation.DESCRIBE, name)
            check_coordinator(self._groups, name)
            found = await self._groups.describe(name, deadline=deadline)
        except UnknownGroup:
            state = _DEAD
        except RaftlogError as error:
            code = group_code(error)
        if found is None:
            return kind(
                error_code=code, group_id=name, group_state=state, protocol_type="", protocol_data="", members=[]
            )
        return kind(
            error_code=code,
            group_id=name,
            group_state=found.state,
            protocol_type=found.protocol_type,
            protocol_data=found.protocol if found.state == _STABLE else "",
            members=_describe_members(kind.DescribedGroupMember, found),
        )

    async def list_groups(self, request: KafkaRequest) -> Any:
        """Return the groups that this broker coordinates; clients send the request to all brokers."""
        answer = answer_class(ApiKey.LIST_GROUPS)
        try:
            listings = await self._groups.local_listings(deadline=deadline_in(NO_DEADLINE_MS))
        except RaftlogError as error:
            return answer(error_code=group_code(error), groups=[])
        states = {each.casefold() for each in request.message.states_filter}
        return answer(
            groups=[
                answer.ListedGroup(group_id=each.group, protocol_type=each.protocol_type, group_state=each.state)
                for each in listings
                if (not states or each.state.casefold() in states)
                and self._authorizer.allows(request.caller, AclOperation.DESCRIBE, group_resource(each.group))
            ]
        )

    async def delete_groups(self, request: KafkaRequest) -> Any:
        """Delete groups without members and their offsets; each group has its own error code."""
        deadline = deadline_in(NO_DEADLINE_MS)
        answer = answer_class(ApiKey.DELETE_GROUPS)
        results = []
        for name in request.message.groups_names:
            code = ErrorCode.NONE
            try:
                authorize_group(self._authorizer, request, AclOperation.DELETE, name)
                check_coordinator(self._groups, name)
                await self._groups.delete(name, deadline=deadline)
            except RaftlogError as error:
                code = group_code(error)
            results.append(answer.DeletableGroupResult(group_id=name, error_code=code))
        return answer(results=results)


def _describe_members(kind: Any, found: GroupDetails) -> list[Any]:
    """Return the rows of a group's members; `kind` is their class."""
    return [
        kind(
            member_id=each.member_id,
            group_instance_id=each.instance_id,
            client_id=each.client_id,
            client_host=each.client_host,
            member_metadata=each.metadata,
            member_assignment=each.assignment_bytes,
        )
        for each in found.members
    ]
