"""Administrators: each repeatedly creates and deletes the topic of one name through any broker.

With `BrokerOptions.growth` it adds partitions, too. Successful requests must hold. After a creation of unknown outcome
a topic of this name may appear at any time, so the administrator continues with another name.

    ABSENT  --create ok-->  PRESENT  --delete ok-->  ABSENT          PRESENT  --delete unknown-->  LEAVING
"""

from enum import Enum
from random import Random
from typing import Final
from uuid import UUID

from jepsen.simulation.brokers.cluster import BrokerCluster
from jepsen.simulation.brokers.options import ADDED_MAX
from jepsen.simulation.brokers.workload.clients import RETRY_NS, Attempt, Client
from jepsen.simulation.network.links import SECOND_NS
from jepsen.simulation.verdicts import PropertyBroken
from raftlog.errors import RaftlogError, TopicExists, UnknownTopic
from raftlog.partitions.broker import Broker


class Topic(Enum):
    """State of the topic with the administrator's present name, as the administrator knows it. `UNSURE` is final."""

    ABSENT = "absent"
    PRESENT = "present"
    LEAVING = "leaving"
    """A deletion of unknown outcome: it may have happened, or still happen."""
    UNSURE = "unsure"


_GROWTH: Final = 0.8
"""Share of the times at which a topic is due for deletion and gets partitions instead."""
_ABSENT_NS: Final = SECOND_NS // 2


class Administrator(Client):
    """Simulated client that creates, grows and deletes the topic of one name.

    `place` is the position of the name in the clients' list."""

    def __init__(self, cluster: BrokerCluster, random: Random, place: int) -> None:
        super().__init__(cluster, random)
        self.place = place
        self.name = f"topic-{place}"
        self.topic = Topic.ABSENT
        self.topic_id: UUID | None = None
        self.unsure: list[str] = []
        """Names that are no longer used, with unknown state."""
        self.created = self.deleted = 0
        self.grown = 0
        self._names = 0
        self._due_ns = 0
        self._growth_random = cluster.random(f"growth {place}")
        """Random numbers for growth alone, so that runs without it draw the same as before."""
        self._is_growing = False

    def step(self) -> None:
        """Create, grow or delete the topic, or wait, by its state."""
        if self.topic is Topic.ABSENT:
            self.ask(self._create)
        elif self.topic is Topic.UNSURE:
            self._take_another_name()
            self.ask(self._create)
        elif self.topic is Topic.PRESENT and self.loop.now_ns < self._due_ns:
            self.step_later(min(SECOND_NS, self._due_ns - self.loop.now_ns))
        elif self.cluster.options.growth and self.topic is Topic.PRESENT and self._growth_random.random() < _GROWTH:
            self.ask(self._grow)
        else:
            self.ask(self._delete)

    def _take_another_name(self) -> None:
        """Abandon the present name, whose topic may appear at any time, and use a new one."""
        self.unsure.append(self.name)
        self._names += 1
        self.name = f"topic-{self.place}-{self._names}"
        self.cluster.names[self.place] = self.name
        self.topic = Topic.ABSENT

    def on_timeout(self, attempt: Attempt) -> None:
        """Record that the timed-out request may still happen."""
        if self._is_growing:
            self._is_growing = False
            return
        self.topic = Topic.UNSURE if self.topic is Topic.ABSENT else Topic.LEAVING

    # creating

    async def _create(self, attempt: Attempt, broker: Broker) -> None:
        """Create the topic with random settings."""
        options = self.cluster.options
        config = {"segment.bytes": str(options.segment_bytes)}
        if self.random.random() < options.uses.compacted:
            config |= {
                "cleanup.policy": "compact",
                "min.cleanable.dirty.ratio": "0.01",
                "min.compaction.lag.ms": str(options.uses.compaction_lag_ms),
                "delete.retention.ms": str(options.uses.delete_retention_ms),
            }
        elif options.retention_bytes is not None:
            config["retention.bytes"] = str(options.retention_bytes)
        factor = self.random.choice(options.factors)
        count = self.random.randint(1, options.partitions_max)
        try:
            described = await broker.create_topic(self.name, count, factor, config, deadline=attempt.deadline())
        except RaftlogError as error:
            if self.is_answer_received(attempt):
                self._on_create_error(attempt, error)
            return
        if self.is_answer_received(attempt):
            self.topic, self.topic_id = Topic.PRESENT, UUID(described.topic_id)
            self.created += 1
            self._due_ns = self.loop.now_ns + int(self.random.expovariate(1 / options.topic_life_s) * SECOND_NS)
            self._note(attempt, f"created {self.name} ({self.topic_id.hex[:8]})")
            self.finish(attempt, RETRY_NS)

    def _on_create_error(self, attempt: Attempt, error: RaftlogError) -> None:
        """Record a failed creation. Raises `PropertyBroken` if the topic exists, since it was deleted."""
        if isinstance(error, TopicExists):
            raise PropertyBroken("deleted-topic-exists", self._evidence(attempt, error))
        if error.outcome == "unknown":
            self.topic = Topic.UNSURE
        self._note(attempt, f"did not create {self.name}: {type(error).__name__} {error}")
        self.finish(attempt, RETRY_NS)

    # adding partitions

    async def _grow(self, attempt: Attempt, broker: Broker) -> None:
        """Add partitions to the topic, which then stays for a while."""
        self._is_growing = True
        try:
            known = len((await broker.describe_topic(self.name, deadline=attempt.deadline())).partitions)
            total = known + self._growth_random.randint(1, ADDED_MAX)
            described = await broker.create_partitions(self.name, total, deadline=attempt.deadline())
        except RaftlogError as error:
            if self.is_answer_received(attempt):
                self._on_grow_error(attempt, error)
            return
        if self.is_answer_received(attempt):
            if len(described.partitions) < total:
                raise PropertyBroken("added-partitions-missing", {"topic": self.name, "total": total})
            self.grown += 1
            self._note(attempt, f"{self.name} has {total} partitions")
            self._end_growth(attempt)

    def _on_grow_error(self, attempt: Attempt, error: RaftlogError) -> None:
        """Record that no partitions were added. Raises `PropertyBroken` if the topic is unknown."""
        if isinstance(error, UnknownTopic):
            raise PropertyBroken("created-topic-unknown", self._evidence(attempt, error))
        self._note(attempt, f"did not add partitions to {self.name}: {type(error).__name__} {error}")
        self._end_growth(attempt)

    def _end_growth(self, attempt: Attempt) -> None:
        """Draw the time of the topic's deletion anew, and end the request."""
        self._is_growing = False
        self._due_ns = self.loop.now_ns + int(self._growth_random.expovariate(0.5) * SECOND_NS)
        self.finish(attempt, RETRY_NS)

    # deleting

    async def _delete(self, attempt: Attempt, broker: Broker) -> None:
        """Delete the topic."""
        try:
            await broker.delete_topic(self.name, deadline=attempt.deadline())
        except RaftlogError as error:
            if self.is_answer_received(attempt):
                self._on_delete_error(attempt, error)
            return
        if self.is_answer_received(attempt):
            self._record_deletion(attempt, "deleted")

    def _on_delete_error(self, attempt: Attempt, error: RaftlogError) -> None:
        """Record a failed deletion; an unknown topic counts as deleted only after a deletion of unknown outcome."""
        if isinstance(error, UnknownTopic):
            if self.topic is Topic.PRESENT:
                raise PropertyBroken("created-topic-unknown", self._evidence(attempt, error))
            self._record_deletion(attempt, "deleted before")
            return
        if error.outcome == "unknown":
            self.topic = Topic.LEAVING
        self._note(attempt, f"did not delete {self.name}: {type(error).__name__} {error}")
        self.finish(attempt, RETRY_NS)

    def _record_deletion(self, attempt: Attempt, how: str) -> None:
        """Record that the topic is deleted, and end the request."""
        self._note(attempt, f"{how} {self.name} ({self.topic_id.hex[:8] if self.topic_id else '?'})")
        self.topic, self.topic_id = Topic.ABSENT, None
        self.deleted += 1
        self.finish(attempt, int(self.random.uniform(0, 2) * _ABSENT_NS))

    def _note(self, attempt: Attempt, text: str) -> None:
        """Add an event of this client to the timeline."""
        self.loop.note("admin", f"at {attempt.machine.name}: {text}")

    def _evidence(self, attempt: Attempt, error: RaftlogError) -> dict[str, object]:
        """Return the evidence for a broken property."""
        known = {"topic": self.name, "id": self.topic_id, "known": self.topic.value}
        return {**known, "broker": attempt.machine.name, "error": error}
