"""Requests of transactional producers: an identity, offsets of consumer groups, and the end of each transaction.

`raftlog.client.BrokerClient.transactions`, used by `TransactionalProducer`. Any broker takes them; all can be repeated.
Every end raises the epoch, so that late requests of an earlier transaction are fenced. Times are in milliseconds."""

from collections.abc import Mapping
from typing import Any, Final

from raftlog.client.answers import ProducerIdentity
from raftlog.client.calls import ANSWER_MS, Calls, quote_segment
from raftlog.client.group_answers import Membership
from raftlog.client.leaders import GroupTarget, LeaderTarget, TransactionTarget
from raftlog.types import Offset, TopicPartition
from raftlog.values.records import AllocatedProducer

_NOTHING: Final[Any] = Any


class TransactionClient:
    """Transactional part of a `BrokerClient`, whose transport it uses."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def initialize(
        self,
        transactional_id: str,
        transaction_timeout_ms: int,
        present: ProducerIdentity | None = None,
        *,
        timeout_ms: int = ANSWER_MS,
    ) -> ProducerIdentity:
        """Return an identity, fence older producers of the id, and abort their transaction.

        `present` is the identity that the caller has: if it is not the id's current one, raises `ProducerFenced`."""
        fields: dict[str, object] = {"timeout_ms": transaction_timeout_ms}
        if present is not None:
            fields |= _identity_fields(present)
        return await self._allocate(transactional_id, "producer", fields, timeout_ms)

    async def add_offsets(
        self,
        transactional_id: str,
        identity: ProducerIdentity,
        group: str,
        offsets: Mapping[TopicPartition, Offset],
        member: Membership | None,
        *,
        timeout_ms: int = ANSWER_MS,
    ) -> None:
        """Add offsets of a consumer group to the transaction; raises as `GroupClient.commit`, and `ProducerFenced`."""
        rows = [{"topic": place.topic, "partition": place.partition, "offset": at} for place, at in offsets.items()]
        fields: dict[str, object] = {**_identity_fields(identity), "group": group, "offsets": rows}
        if member is not None:
            fields |= member._asdict()
        await self._post(_NOTHING, transactional_id, "offsets", fields, GroupTarget(group), timeout_ms)

    async def end(
        self, transactional_id: str, identity: ProducerIdentity, *, is_commit: bool, timeout_ms: int = ANSWER_MS
    ) -> ProducerIdentity:
        """Commit or abort the transaction; return the identity for the next one. A repeated call returns the same.

        Raises `InvalidTransactionState` without a transaction to commit, and `ProducerFenced`."""
        fields = {**_identity_fields(identity), "commit": is_commit}
        return await self._allocate(transactional_id, "end", fields, timeout_ms)

    async def _allocate(
        self, transactional_id: str, action: str, fields: Mapping[str, object], timeout_ms: int
    ) -> ProducerIdentity:
        """Send a request to the coordinator; return the identity in its answer."""
        target = TransactionTarget(transactional_id)
        found: AllocatedProducer = await self._post(
            AllocatedProducer, transactional_id, action, fields, target, timeout_ms
        )
        return ProducerIdentity(found.producer_id, found.producer_epoch)

    async def _post(
        self,
        kind: Any,
        transactional_id: str,
        action: str,
        fields: Mapping[str, object],
        target: LeaderTarget,
        timeout_ms: int,
    ) -> Any:
        """Send a request, repeatedly if its answer is lost; return the answer, decoded as `kind`."""
        path = f"/transactions/{quote_segment(transactional_id, 'transactional id')}/{action}"
        return await self._calls.change_as(
            kind, "POST", path, fields, timeout_ms=timeout_ms, repeatable=True, target=target
        )


def _identity_fields(identity: ProducerIdentity) -> dict[str, object]:
    """Return the producer's identity as fields of a request."""
    return {"producer_id": identity.producer_id, "producer_epoch": identity.epoch}
