"""Handler of InitProducerId: every request gets a new producer id, even if it names an earlier one.

Kafka does the same without a transactional id (KIP-360 bumps epochs of transactional producers only). Transactions are
refused with TRANSACTIONAL_ID_AUTHORIZATION_FAILED: librdkafka and the Java client end with it at once, and retry or
obscure most other codes."""

from typing import Any, Final

from raftlog.api.kafka.api import NO_DEADLINE_MS, ApiKey, KafkaApi, KafkaRequest
from raftlog.api.kafka.context import KafkaContext
from raftlog.api.kafka.error_codes import ErrorCode, code_of
from raftlog.api.kafka.wire import schemas
from raftlog.errors import NotAuthorized, OutcomeUnknown, Unavailable
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.produce import Producers
from raftlog.partitions.security.authorizer import Authorizer

VERSIONS: Final = (0, 4)
_NO_ID: Final = -1


class ProducerIdHandler:
    """Handler of InitProducerId."""

    def __init__(self, producers: Producers, authorizer: Authorizer) -> None:
        self._producers, self._authorizer = producers, authorizer

    async def handle(self, request: KafkaRequest) -> Any:
        """Return a new producer id with epoch 0."""
        answer = schemas.answer_class(ApiKey.INIT_PRODUCER_ID)
        transactional_id = request.message.transactional_id
        if transactional_id is not None:
            code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED if transactional_id else ErrorCode.INVALID_REQUEST
            return answer(error_code=code, producer_id=_NO_ID, producer_epoch=_NO_ID)
        try:
            self._authorizer.authorize_producer(request.caller)
        except NotAuthorized as error:
            return answer(error_code=code_of(error), producer_id=_NO_ID, producer_epoch=_NO_ID)
        try:
            producer_id, epoch = await self._producers.allocate(deadline_in(NO_DEADLINE_MS))
        except (Unavailable, OutcomeUnknown):  # at most a block of ids is lost
            return answer(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, producer_id=_NO_ID, producer_epoch=_NO_ID)
        return answer(error_code=ErrorCode.NONE, producer_id=producer_id, producer_epoch=epoch)


def apis(context: KafkaContext) -> list[KafkaApi]:
    """Return the declaration of InitProducerId."""
    handler = ProducerIdHandler(context.broker.producers, context.broker.security.authorizer)
    return [KafkaApi(ApiKey.INIT_PRODUCER_ID, VERSIONS, handler.handle)]
