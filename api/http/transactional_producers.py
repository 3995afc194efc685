"""Handlers for transactional producers: an identity, offsets of consumer groups, and the end of each transaction.

A transaction begins with its first records (`POST /topics/{topic}?transactional_id=…`) or offsets. Every end raises the
producer's epoch, so each transaction has its own (KIP-890), and late requests of an earlier one are fenced."""

from aiohttp import web

from raftlog.api.codes import INVALID_JSON
from raftlog.api.http.groups.commits import parse_commits, parse_member
from raftlog.api.http.leader_header import leader_header
from raftlog.api.http.requests import (
    TRANSACTION_TIMEOUT_MS,
    ProducerBody,
    TransactionalProducerBody,
    TransactionEndBody,
    TransactionOffsetsBody,
)
from raftlog.api.http.server.answers import no_content, value_answer
from raftlog.api.http.server.connection import caller_of
from raftlog.api.http.server.endpoint import LEADER, HttpEndpoint
from raftlog.api.http.server.handlers import Handlers
from raftlog.api.http.server.permissions import IN_REQUEST, TOPICS_READ, WRITE_TRANSACTION, on_group
from raftlog.api.http.server.problems import HttpProblem
from raftlog.api.http.server.routing import Target
from raftlog.partitions.groups.offsets import check_offsets
from raftlog.partitions.groups.results import MemberIdentity, TransactionalProducer
from raftlog.partitions.produce import ProducerId
from raftlog.security.permissions import AclOperation, AclResourceType, Resource
from raftlog.values.records import AllocatedProducer

_TRANSACTION = "/transactions/{transactional_id}"


class TransactionalProducerHandlers(Handlers):
    """Handlers of POST /transactions/{transactional_id}/producer, …/offsets and …/end."""

    kind = tag = "transactions"

    @HttpEndpoint(
        f"POST {_TRANSACTION}/producer",
        AllocatedProducer,
        body=TransactionalProducerBody | None,
        text="The producer's identity; older ones are fenced.",
        headers=LEADER,
        permissions=WRITE_TRANSACTION,
    )
    async def initialize_producer(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Initialize a transactional producer; abort the open transaction of the transactional id.

        The body is `{"timeout_ms"?: 60000, "producer_id"?, "producer_epoch"?}`."""
        body = await self._bodies.read_if_any(request, TransactionalProducerBody) or TransactionalProducerBody()
        if (body.producer_id is None) != (body.producer_epoch is None):
            raise HttpProblem(INVALID_JSON, 'a present identity must have its "producer_id" and "producer_epoch"')
        expected = None
        if body.producer_id is not None and body.producer_epoch is not None:
            expected = ProducerId(body.producer_id, body.producer_epoch)
        timeout_ms = TRANSACTION_TIMEOUT_MS if body.timeout_ms is None else body.timeout_ms
        name = target.args[0]
        found = await self._broker.transactions.initialize(
            name, timeout_ms, expected=expected, deadline=target.deadline()
        )
        return self._add_coordinator(value_answer(AllocatedProducer(*found)), name)

    @HttpEndpoint(
        f"POST {_TRANSACTION}/offsets",
        body=TransactionOffsetsBody,
        text="The offsets count once the transaction is committed.",
        headers=LEADER,
        permissions=(*WRITE_TRANSACTION, *on_group(AclOperation.READ, IN_REQUEST), *TOPICS_READ),
    )
    async def add_offsets(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Add offsets of a consumer group to a transaction, which begins unless it is open.

        The body is `{"producer_id", "producer_epoch", "group", "offsets": [{"topic", "partition", "offset"}],
        "member_id"?, "generation"?, "instance_id"?}`. After an error the transaction must be aborted."""
        body = await self._bodies.read(request, TransactionOffsetsBody)
        producer = _parse_producer(target, body)
        member = parse_member(body)
        offsets = parse_commits(body, member or MemberIdentity("", -1))
        self._authorizer.authorize(caller_of(request), AclOperation.READ, Resource(AclResourceType.GROUP, body.group))
        self._authorize_read(request, (place.topic for place in offsets))
        check_offsets(offsets)
        failed = await self._broker.groups.commit_pending(
            body.group,
            offsets,
            producer=producer,
            member=member or MemberIdentity("", -1),
            deadline=target.deadline(),
            joins=True,
        )
        if failed:
            raise next(iter(failed.values()))
        response = no_content()
        response.headers.update(leader_header(self._broker, self._broker.groups.leader_of(body.group)))
        return response

    @HttpEndpoint(
        f"POST {_TRANSACTION}/end",
        AllocatedProducer,
        body=TransactionEndBody,
        text="The producer's identity for its next transaction. After the epoch 32767 initialize it again.",
        headers=LEADER,
        permissions=WRITE_TRANSACTION,
    )
    async def end_transaction(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Commit or abort a transaction, for good when it is answered; repeat the request until it is.

        The body is `{"producer_id", "producer_epoch", "commit": true}`. Readers see the outcome once it is written to
        all partitions, some milliseconds later."""
        body = await self._bodies.read(request, TransactionEndBody)
        producer = _parse_producer(target, body)
        found = await self._broker.transactions.finish(producer, is_commit=body.commit, deadline=target.deadline())
        return self._add_coordinator(value_answer(AllocatedProducer(*found)), producer.transactional_id)

    def _add_coordinator(self, response: web.Response, transactional_id: str) -> web.Response:
        """Add the address of the coordinator to a response if it is another broker; return the response."""
        response.headers.update(leader_header(self._broker, self._broker.transactions.leader_of(transactional_id)))
        return response


def _parse_producer(target: Target, body: ProducerBody) -> TransactionalProducer:
    """Return the producer of the path's transactional id, with the id and epoch in the body."""
    return TransactionalProducer(target.args[0], body.producer_id, body.producer_epoch)
