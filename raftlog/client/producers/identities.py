"""Producer ids of an idempotent producer: one, and a newer one when a lane has to abandon it.

Other lanes keep their id; only a lane whose chain of sequences is broken takes the newer one."""

import asyncio

from raftlog.client.answers import ProducerIdentity
from raftlog.client.broker import BrokerClient


class Identities:
    """Producer ids of one producer; `current` is the one for new partitions, set by the first `wait_for_id`."""

    def __init__(self, client: BrokerClient, timeout_ms: int) -> None:
        """Start without an id. `timeout_ms` bounds one request for an id."""
        self._client, self._timeout_ms = client, timeout_ms
        self._current: ProducerIdentity | None = None
        self._asking = asyncio.Lock()

    @property
    def current(self) -> ProducerIdentity:
        assert self._current is not None, "a lane begins when there is a producer id"
        return self._current

    async def wait_for_id(self) -> None:
        """Wait until there is an id; raises `Unavailable`."""
        await self._get_other(None)

    async def replace(self, abandoned: ProducerIdentity, *, must_be_new: bool = False) -> ProducerIdentity:
        """Return a producer id in place of `abandoned`: `current` if it differs already, otherwise a new one.

        With `must_be_new` a new id is greater than every id given out before, since a partition that has expired
        `abandoned` may have expired others of its age. Raises as `wait_for_id`."""
        return await self._get_other(abandoned, must_be_new=must_be_new)

    async def _get_other(self, abandoned: ProducerIdentity | None, *, must_be_new: bool = False) -> ProducerIdentity:
        """Return an id other than `abandoned`; request one if no other task did so meanwhile."""
        async with self._asking:
            current = self._current
            if current is None or current == abandoned:
                current = self._current = await self._client.new_producer(
                    is_fresh=must_be_new, timeout_ms=self._timeout_ms
                )
            return current
