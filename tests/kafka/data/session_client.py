"""Client with a fetch session, which builds its requests as the Java client does (FetchSessionHandler)."""

from typing import Any

from raftlog.api.kafka.api import ApiKey
from raftlog.records import read_header
from tests.kafka.data.requests import Handlers, fetch_fields

Key = tuple[str, int]
VERSION = 12


class SessionClient:
    """Client of one broker. `wanted` is the next offset of each partition, which the user changes freely."""

    def __init__(self, handlers: Handlers, wanted: dict[Key, int], *, version: int = VERSION) -> None:
        self.wanted = wanted
        self.id = self.epoch = 0
        self._handlers, self._version = handlers, version
        self._sent: dict[Key, int] = {}
        self.rows: dict[Key, Any] = {}
        """Last row of each partition of the session."""

    async def fetch(self, **more: Any) -> dict[Key, Any]:
        """Send one request; return the rows of its answer. Begin a new session after an error of the session."""
        added = {key: offset for key, offset in self.wanted.items() if self._sent.get(key) != offset}
        forgotten = [key for key in self._sent if key not in self.wanted]
        if not self.epoch:
            added, forgotten = dict(self.wanted), []
        answer = await self.send(added, forgotten, **more)
        if answer.error_code:
            self.reset()
            return await self.fetch(**more)
        is_full = not self.epoch
        self.id = answer.session_id
        self.epoch = self.epoch + 1 if answer.session_id else 0
        self._sent = dict(self.wanted)
        rows = {(topic.topic, row.partition_index): row for topic in answer.responses for row in topic.partitions}
        assert len(rows) == sum(len(topic.partitions) for topic in answer.responses), "a partition twice"
        assert set(rows) <= set(self.wanted), "a partition that is not in the session"
        assert not is_full or set(rows) == set(self.wanted), "a full answer has all partitions"
        for key in forgotten:
            self.rows.pop(key, None)
        self.rows |= rows
        return rows

    async def send(self, offsets: dict[Key, int], forgotten: list[Key], **more: Any) -> Any:
        """Send one request with the present session and epoch; return the answer."""
        ids = {"session_id": self.id, "session_epoch": self.epoch, "forgotten": forgotten, **more}
        return await self._handlers.send(ApiKey.FETCH, self._version, **fetch_fields(offsets, **ids))

    def reset(self) -> None:
        """Begin a new session with the next request; the present one is closed by it."""
        self.epoch, self._sent, self.rows = 0, {}, {}

    def advance(self, rows: dict[Key, Any]) -> None:
        """Move the wanted offsets behind the records of an answer."""
        for key, row in rows.items():
            records = row.records or b""
            while records:
                header = read_header(memoryview(records))
                self.wanted[key] = header.next_offset
                records = records[header.size :]
