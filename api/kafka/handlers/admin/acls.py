"""Handlers of DescribeAcls, CreateAcls and DeleteAcls: SECURITY_DISABLED, as MirrorMaker expects without ACLs."""

from typing import Any, Final

from raftlog.api.kafka.api import ApiKey, KafkaApi, KafkaRequest
from raftlog.api.kafka.error_codes import ErrorCode
from raftlog.api.kafka.wire.schemas import answer_class

_NO_ACLS: Final = "Brokers check no permissions, so there are no ACLs; bind the listener to a trusted network"


class AclRefusals:
    """Handlers that refuse all requests about ACLs."""

    def apis(self) -> list[KafkaApi]:
        """Return the APIs that this class serves."""
        return [
            KafkaApi(ApiKey.DESCRIBE_ACLS, (1, 3), self.describe),
            KafkaApi(ApiKey.CREATE_ACLS, (1, 3), self.create),
            KafkaApi(ApiKey.DELETE_ACLS, (1, 3), self.delete),
        ]

    async def describe(self, request: KafkaRequest) -> Any:
        """Refuse to list ACLs."""
        answer = answer_class(request.key)
        return answer(error_code=ErrorCode.SECURITY_DISABLED, error_message=_NO_ACLS, resources=[])

    async def create(self, request: KafkaRequest) -> Any:
        """Refuse to create each ACL."""
        answer = answer_class(request.key)
        refused = answer.AclCreationResult(error_code=ErrorCode.SECURITY_DISABLED, error_message=_NO_ACLS)
        return answer(results=[refused] * len(request.message.creations))

    async def delete(self, request: KafkaRequest) -> Any:
        """Refuse to delete the ACLs of each filter."""
        answer = answer_class(request.key)
        refused = answer.DeleteAclsFilterResult(
            error_code=ErrorCode.SECURITY_DISABLED, error_message=_NO_ACLS, matching_acls=[]
        )
        return answer(filter_results=[refused] * len(request.message.filters))
