"""Handler of FindCoordinator 0 to 3: the coordinator of a group or a transactional id, with its address."""

from typing import Any, Final

from raftlog.api.kafka.api import ApiKey, KafkaApi, KafkaRequest
from raftlog.api.kafka.context import KafkaContext
from raftlog.api.kafka.error_codes import ErrorCode
from raftlog.api.kafka.handlers.groups.group_errors import authorize_group, member_code
from raftlog.api.kafka.handlers.transaction_errors import authorize_transaction
from raftlog.api.kafka.wire.schemas import answer_class
from raftlog.errors import InvalidArgument, RaftlogError, RequestError
from raftlog.partitions.deadline import deadline_in
from raftlog.security.permissions import AclOperation
from raftlog.types import NodeId

_WAIT_MS: Final = 3_000
"""Time for the creation of the internal topic and for an election; clients retry afterwards."""
_GROUP: Final = 0
_TRANSACTION: Final = 1
"""Types of the key in the request: name of a group, or transactional id."""


class DiscoveryHandlers:
    """Handler of FindCoordinator."""

    def __init__(self, context: KafkaContext) -> None:
        self._broker, self._listener = context.broker, context.listener

    def apis(self) -> list[KafkaApi]:
        """Return the API that this handler serves, with its versions."""
        return [KafkaApi(ApiKey.FIND_COORDINATOR, (0, 3), self.find)]

    async def find(self, request: KafkaRequest) -> Any:
        """Return node id and address of a coordinator, for this listener."""
        asked = request.message
        try:
            node = await self._find_coordinator(request)
        except InvalidArgument as error:  # with most other codes librdkafka would repeat the request without end
            is_transaction = asked.key_type == _TRANSACTION
            return _error_answer(
                ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED if is_transaction else member_code(error), str(error)
            )
        except RaftlogError as error:
            return _error_answer(member_code(error), str(error))
        for node_id, host, port, _ in self._broker.kafka_addresses(self._listener):
            if node_id == node:
                return answer_class(ApiKey.FIND_COORDINATOR)(node_id=node, host=host, port=port)
        return _error_answer(
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            f"broker {node} coordinates {asked.key} and has no Kafka listener {self._listener}; start it with --kafka",
        )

    async def _find_coordinator(self, request: KafkaRequest) -> NodeId:
        """Return the node that coordinates the group or transactional id of a request."""
        asked, authorizer = request.message, self._broker.security.authorizer
        if asked.key_type == _GROUP:
            authorize_group(authorizer, request, AclOperation.DESCRIBE, asked.key)
            return await self._broker.groups.coordinator(asked.key, deadline=deadline_in(_WAIT_MS))
        if asked.key_type == _TRANSACTION:
            authorize_transaction(authorizer, request, AclOperation.DESCRIBE, asked.key)
            return await self._broker.transactions.coordinator(asked.key, deadline=deadline_in(_WAIT_MS))
        raise RequestError(f"key type {asked.key_type} is unknown; groups have 0, transactional ids 1")


def _error_answer(code: ErrorCode, message: str) -> Any:
    """Return the answer of FindCoordinator for an error."""
    return answer_class(ApiKey.FIND_COORDINATOR)(error_code=code, error_message=message, node_id=-1, host="", port=-1)
