"""Handler of InitProducerId: a new producer id, or the next epoch of a transactional id.

Without a transactional id every request gets a new producer id, even if it names an earlier one, as at Kafka's brokers
(KIP-360 bumps epochs of transactional producers only)."""

from typing import Any, Final

from raftlog.api.kafka.api import NO_DEADLINE_MS, ApiKey, KafkaApi, KafkaRequest
from raftlog.api.kafka.context import KafkaContext
from raftlog.api.kafka.error_codes import ErrorCode, code_of
from raftlog.api.kafka.handlers.transaction_errors import authorize_transaction, transaction_code
from raftlog.api.kafka.wire import schemas
from raftlog.errors import InvalidArgument, NotAuthorized, OutcomeUnknown, RaftlogError, RequestError, Unavailable
from raftlog.partitions.broker import Broker
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.produce import ProducerId
from raftlog.security.permissions import AclOperation

VERSIONS: Final = (0, 4)
_NO_ID: Final = -1
_EXPECTED_SINCE: Final = 3
"""First version with the producer's present identity (KIP-360)."""
_INITIALIZE_MS: Final = 10_000
"""Time for the commit of a transition; clients retry afterwards."""


class ProducerIdHandler:
    """Handler of InitProducerId."""

    def __init__(self, broker: Broker) -> None:
        self._producers, self._authorizer = broker.producers, broker.security.authorizer
        self._transactions = broker.transactions.without_forwarding()

    async def handle(self, request: KafkaRequest) -> Any:
        """Return a new producer id with epoch 0, or the next identity of a transactional id."""
        answer = schemas.answer_class(ApiKey.INIT_PRODUCER_ID)
        transactional_id = request.message.transactional_id
        if transactional_id is not None:
            try:
                producer_id, epoch = await self._initialize(request)
            except RaftlogError as error:
                is_allowed = self._transactions.allows_timeout(request.message.transaction_timeout_ms)
                is_timeout = isinstance(error, InvalidArgument) and not is_allowed
                code = ErrorCode.INVALID_TRANSACTION_TIMEOUT if is_timeout else transaction_code(error, request)
                return answer(error_code=code, producer_id=_NO_ID, producer_epoch=_NO_ID)
            return answer(error_code=ErrorCode.NONE, producer_id=producer_id, producer_epoch=epoch)
        try:
            self._authorizer.authorize_producer(request.caller)
        except NotAuthorized as error:
            return answer(error_code=code_of(error), producer_id=_NO_ID, producer_epoch=_NO_ID)
        try:
            producer_id, epoch = await self._producers.allocate(deadline_in(NO_DEADLINE_MS))
        except (Unavailable, OutcomeUnknown):  # at most a block of ids is lost
            return answer(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, producer_id=_NO_ID, producer_epoch=_NO_ID)
        return answer(error_code=ErrorCode.NONE, producer_id=producer_id, producer_epoch=epoch)

    async def _initialize(self, request: KafkaRequest) -> ProducerId:
        """Return the next identity of a transactional id; producers with an earlier identity are fenced."""
        asked = request.message
        authorize_transaction(self._authorizer, request, AclOperation.WRITE, asked.transactional_id)
        expected = None
        if request.version >= _EXPECTED_SINCE and (asked.producer_id, asked.producer_epoch) != (_NO_ID, _NO_ID):
            if min(asked.producer_id, asked.producer_epoch) < 0:
                raise RequestError(f"no producer has id {asked.producer_id} with epoch {asked.producer_epoch}")
            expected = ProducerId(asked.producer_id, asked.producer_epoch)
        return await self._transactions.initialize(
            asked.transactional_id,
            asked.transaction_timeout_ms,
            expected=expected,
            deadline=deadline_in(_INITIALIZE_MS),
        )


def apis(context: KafkaContext) -> list[KafkaApi]:
    """Return the declaration of InitProducerId."""
    handler = ProducerIdHandler(context.broker)
    return [KafkaApi(ApiKey.INIT_PRODUCER_ID, VERSIONS, handler.handle)]
