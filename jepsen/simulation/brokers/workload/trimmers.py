"""Trimmers: delete the records below an offset, through any broker.

A successful trim holds for every later request for the log start (`trim-undone`).
"""

from typing import Final

from jepsen.checkers import Trim
from jepsen.checkers.history import TRIM
from jepsen.simulation.brokers.workload.clients import RETRY_NS, Attempt, Client, known_topic
from jepsen.simulation.network.links import SECOND_NS
from raftlog.errors import RaftlogError
from raftlog.partitions.broker import Broker
from raftlog.types import Offset

PAUSE_NS: Final = 2 * SECOND_NS


class Trimmer(Client):
    """Simulated client that deletes records below an offset, with one request at a time."""

    def step(self) -> None:
        """Delete records of a random partition."""
        self.ask(self._trim)

    async def _trim(self, attempt: Attempt, broker: Broker) -> None:
        """Delete the records below a random offset, and record the new log start."""
        topic = known_topic(broker, self.random.choice(self.cluster.names))
        if topic is None or (topic.is_compacted and not self.cluster.options.uses.trims_compacted):
            self.finish(attempt, PAUSE_NS)
            return
        number = self.random.randrange(topic.partitions)
        try:
            found = await broker.offsets(topic.name, number, deadline=attempt.deadline())
        except RaftlogError as error:
            if self.is_answer_received(attempt):
                self.record_failure(attempt, error)
            return
        before = Offset(self.random.randint(found.beginning, found.end))
        if attempt.has_ended or known_topic(broker, topic.name) != topic:
            if not attempt.has_ended:
                self.finish(attempt, RETRY_NS)
            return
        partition = topic.partition(number)
        attempt.op = self.recorder.invoke(self.process, TRIM, Trim(partition, before))
        try:
            start = await broker.delete_records(topic.name, number, before, deadline=attempt.deadline())
        except RaftlogError as error:
            if self.is_answer_received(attempt):
                self.record_failure(attempt, error)
            return
        if known_topic(broker, topic.name) == topic and self.is_answer_received(attempt):
            self.recorder.ok(attempt.op, Trim(partition, start))
            self.finish(attempt, int(self.random.uniform(0.2, 1) * PAUSE_NS))
        elif not attempt.has_ended:
            self.recorder.info(attempt.op, "another topic has the name")
            self.finish(attempt, PAUSE_NS)
