"""Identities of a transactional producer: each transaction has an epoch of its own, which its end returns."""

from raftlog.client.answers import ProducerIdentity
from raftlog.client.broker import BrokerClient
from raftlog.client.consumers.consumed_offsets import OffsetsOfGroup
from raftlog.client.outage import Outage, is_unanswered
from raftlog.client.producers.identities import Identities
from raftlog.client.producers.producer_settings import ProducerSettings
from raftlog.errors import InvalidProducerMapping, OutcomeUnknown, ProducerFenced, RaftlogError

EPOCH_MAX = 32_767
"""Highest epoch of a producer id; a transaction begins only with a lower one."""


class TransactionIdentities(Identities):
    """Identity of the present transaction, and the requests that use it."""

    def __init__(
        self, client: BrokerClient, transactional_id: str, transaction_timeout_ms: int, settings: ProducerSettings
    ) -> None:
        """Prepare the transactional id; it is initialized with the first transaction."""
        super().__init__(client, settings.request_timeout_ms)
        self._transactional_id, self._transaction_timeout_ms = transactional_id, transaction_timeout_ms
        self._limit_s = settings.delivery_timeout_ms / 1000
        self.needs_renewal = True
        """Whether the producer has to be initialized before the next transaction."""
        self.is_closed = False
        """Whether the client is closed, so that no request is repeated."""

    async def wait_for_id(self) -> None:
        """Return at once: a transaction begins with its identity."""

    async def replace(self, abandoned: ProducerIdentity, *, must_be_new: bool = False) -> ProducerIdentity:
        """Raise `InvalidProducerMapping`: the identity cannot be replaced within a transaction."""
        raise InvalidProducerMapping(f"a partition does not know producer {abandoned.producer_id} any more")

    async def prepare(self) -> None:
        """Get an identity for the next transaction, if the end of the last one did not return it.

        Raises `ProducerFenced`, and `Unavailable` or `OutcomeUnknown` when no coordinator answered in time."""
        if not self.needs_renewal:
            return
        transactions, present = self._client.transactions, self._current
        self._current = await self._outage("initialization of", self._limit_s).repeat(
            lambda: transactions.initialize(
                self._transactional_id, self._transaction_timeout_ms, present, timeout_ms=self._timeout_ms
            )
        )
        self.needs_renewal = False

    async def add_offsets(self, offsets: OffsetsOfGroup) -> None:
        """Add offsets of a consumer group to the transaction."""
        await self._outage("offsets of", self._limit_s).repeat(
            lambda: self._client.transactions.add_offsets(
                self._transactional_id, self.current, *offsets, timeout_ms=self._timeout_ms
            )
        )

    async def commit(self) -> None:
        """Commit the transaction; repeat the request until it is answered, which is harmless.

        Raises `OutcomeUnknown` if no answer shows whether the transaction is committed, and `ProducerFenced`."""
        lost: RaftlogError | None = None

        async def attempt() -> ProducerIdentity:
            """Commit once; record an unknown outcome in `lost`."""
            nonlocal lost
            try:
                return await self._end(is_commit=True)
            except OutcomeUnknown as error:
                lost = error
                raise

        try:
            found = await self._outage("commit of", self._limit_s).repeat(attempt)
        except RaftlogError as error:
            if lost is None or isinstance(error, OutcomeUnknown):
                raise
            raise OutcomeUnknown(
                f"the transaction of {self._transactional_id!r} may be committed ({lost}); then: {error}"
            ) from error
        self._set_next(found)

    async def abort(self, limit_s: float | None = None) -> None:
        """Abort the transaction, and fence its late requests. Raises `ProducerFenced` and `Unavailable`.

        If this fails, the next `prepare` aborts the transaction."""
        self.needs_renewal = True
        limit_s = self._limit_s if limit_s is None else limit_s
        found = await self._outage("abort of", limit_s).repeat(lambda: self._end(is_commit=False))
        self._set_next(found)

    async def _end(self, *, is_commit: bool) -> ProducerIdentity:
        """Send one request to commit or abort; return the identity for the next transaction."""
        return await self._client.transactions.end(
            self._transactional_id, self.current, is_commit=is_commit, timeout_ms=self._timeout_ms
        )

    def _set_next(self, found: ProducerIdentity) -> None:
        """Set the identity of the next transaction; request another one before it if the epochs are used up."""
        self._current, self.needs_renewal = found, found.epoch >= EPOCH_MAX

    def _outage(self, purpose: str, limit_s: float) -> Outage:
        """Return the retries of one request, which `purpose` describes in warnings."""
        return Outage(
            f"{purpose} the transaction of {self._transactional_id!r}", limit_s, is_temporary=self._is_temporary
        )

    def _is_temporary(self, error: RaftlogError) -> bool:
        """Return whether a request with this error may be repeated."""
        return not self.is_closed and is_unanswered(error)


def is_fatal(error: BaseException) -> bool:
    """Return whether a producer cannot continue after an error: another one has replaced it."""
    return isinstance(error, ProducerFenced | InvalidProducerMapping)
