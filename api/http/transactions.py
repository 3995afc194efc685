"""Handlers for transactions: states of transactional ids, and the end of a transaction by an operator."""

from typing import Any

from aiohttp import web

from raftlog.api.http.server.answers import no_content, value_answer
from raftlog.api.http.server.endpoint import HttpEndpoint
from raftlog.api.http.server.handlers import Handlers
from raftlog.api.http.server.permissions import (
    DESCRIBE_TRANSACTION,
    LISTED_GROUPS,
    LISTED_TOPICS,
    LISTED_TRANSACTIONS,
    WRITE_TRANSACTION,
)
from raftlog.api.http.server.routing import Target
from raftlog.partitions.transactions.results import TransactionListing
from raftlog.values.transactions import (
    TransactionDescription,
    TransactionList,
    TransactionPartition,
    TransactionSummary,
)

_TRANSACTION = "/transactions/{transactional_id}"


class TransactionHttpHandlers(Handlers):
    """Handlers of GET /transactions, GET /transactions/{transactional_id} and POST …/abort."""

    kind = tag = "transactions"

    @HttpEndpoint("GET /transactions", TransactionList, text="Sorted.", permissions=LISTED_TRANSACTIONS)
    async def transactions(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return all transactional ids with their states."""
        listings = await self._broker.transactions.listings(deadline=target.deadline())
        visible = self._visibility(request)
        rows = [
            TransactionSummary(**summary_fields(each))
            for each in listings
            if visible.has_transactional_id(each.transactional_id)
        ]
        return value_answer(TransactionList(rows))

    @HttpEndpoint(
        f"GET {_TRANSACTION}",
        TransactionDescription,
        permissions=(*DESCRIBE_TRANSACTION, *LISTED_TOPICS, *LISTED_GROUPS),
    )
    async def transaction(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return the state of a transactional id, and the partitions and groups of its transaction."""
        found = await self._broker.transactions.describe(target.args[0], deadline=target.deadline())
        visible = self._visibility(request)
        partitions = [TransactionPartition(*place) for place in found.partitions if visible.has_topic(place.topic)]
        groups = [group for group in found.groups if visible.has_group(group)]
        fields = summary_fields(found.details)
        return value_answer(TransactionDescription(**fields, partitions=partitions, groups=groups))

    @HttpEndpoint(f"POST {_TRANSACTION}/abort", permissions=WRITE_TRANSACTION, text="Aborted, or nothing was open.")
    async def abort_transaction(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Abort the open transaction of a transactional id, and fence its producer, which fails from then on."""
        await self._broker.transactions.fence(target.args[0], deadline=target.deadline())
        return no_content()


def summary_fields(listing: TransactionListing) -> dict[str, Any]:
    """Return the fields of a summary."""
    is_open = listing.started_ms > 0
    return {
        "transactional_id": listing.transactional_id,
        "state": listing.state,
        "producer_id": listing.producer_id,
        "producer_epoch": listing.epoch,
        "timeout_ms": listing.timeout_ms,
        "started_ms": listing.started_ms if is_open else None,
        "age_ms": listing.age_ms if is_open else None,
        "coordinator_id": listing.coordinator,
    }
