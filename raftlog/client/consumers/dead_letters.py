"""Dead letters: records that a handler failed to process, in a topic of their own, with their origin and the error."""

from typing import Final

from raftlog.client.consumers.consumer_settings import ConsumerRecord
from raftlog.client.producers.producer import Producer
from raftlog.types import Offset

PREFIX: Final = "raftlog.dead-letter."
_ERROR_BYTES_MAX: Final = 2000


class DeadLetters:
    """Dead-letter topic. It may have any number of partitions; records of a key keep their order."""

    def __init__(self, producer: Producer, topic: str) -> None:
        self._producer, self.topic = producer, topic

    async def store(self, record: ConsumerRecord, attempts: int, error: BaseException) -> Offset:
        """Store the record with five more headers; return its offset when it is durable.

        Raises as `Producer.send_and_wait`."""
        why = f"{type(error).__name__}: {error}".encode(errors="replace")[:_ERROR_BYTES_MAX]
        # A dead letter that was read and failed again keeps the headers of its last failure only.
        headers = [header for header in record.headers if not header[0].startswith(PREFIX)]
        headers += [
            (PREFIX + "topic", record.topic.encode()),
            (PREFIX + "partition", b"%d" % record.partition),
            (PREFIX + "offset", b"%d" % record.offset),
            (PREFIX + "attempts", b"%d" % attempts),
            (PREFIX + "error", why),
        ]
        stored = await self._producer.send_and_wait(self.topic, record.value, record.key, headers=headers)
        return stored.offset
