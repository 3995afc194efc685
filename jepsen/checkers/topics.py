"""Checker of topics recreated under one name: deleted topics do not come back, created topics exist.

An *incarnation* is a topic from its creation to its deletion. In a history its partitions have a name of their own
(`incarnation_of`), so for all other checkers they are different partitions. Anomalies:

- `resurrected-topic`: a server reports an incarnation to a process after it reported a later one, or none; it reports
  one that was never created; records that were sent to one incarnation are in another; or a name exists, or can be
  deleted, although its deletion was answered and no creation was requested since then.
- `lost-topic`: an incarnation whose creation was answered, and whose deletion was never requested, is unknown, or its
  name can be created again.

A process queries one server, or several that give this guarantee together. Creations and deletions have one order, so
they are checked across processes. The answer of a server may be stale: it may lack a topic for `DENIED_NS` after its
creation. The outcome of an abandoned change is unknown until a change of the same name that began later is answered.

Records of an incarnation that may be deleted need not be read (`PartitionBook.may_be_deleted`).
"""

from typing import ClassVar, Final, NamedTuple

from jepsen.checkers.checker import Checker, Findings
from jepsen.checkers.history import (
    FAIL,
    INFO,
    OK,
    POLL,
    SEND,
    TOPIC,
    Kind,
    Op,
    Poll,
    Send,
    Topic,
    Value,
    incarnation_of,
    name_and_id,
)
from jepsen.checkers.records import RecordBook
from raftlog.types import TopicPartition

DENIED_NS: Final = 1_000_000_000
"""Longest time, in nanoseconds, that a server may use stale metadata according to which a topic does not exist."""
NONE: Final = ""
"""Value in place of a topic id if no topic has the name."""


class CertainState(NamedTuple):
    """State of a topic name that was certain at a request, and the entry since which it is certain.

    `topic_id` is an id, `NONE`, or None when nothing was certain."""

    topic_id: str | None
    since: Op | None
    changes: int


class TopicName:
    """State of a topic name. `changes` counts the creations and deletions that began or ended."""

    __slots__ = ("acknowledged", "changes", "given_up", "maybe_created", "open", "since", "topic_id")

    def __init__(self) -> None:
        self.topic_id: str | None = NONE
        self.since: Op | None = None
        self.changes = 0
        self.open: set[int] = set()  # processes whose change is open
        self.given_up: list[Op] = []  # completions of changes that may still happen
        self.maybe_created = 0
        self.acknowledged: set[str] = set()

    def certain_state(self) -> CertainState:
        """Return the present state of the name; without a topic id while a change is open or of unknown outcome."""
        return CertainState(None if self.open or self.given_up else self.topic_id, self.since, self.changes)

    def is_certain_of(self, topic_id: str) -> bool:
        """Return whether the topic with this id certainly exists now under the name."""
        return self.certain_state().topic_id == topic_id


class Topics(Checker):
    """Checker of deleted and recreated topics."""

    invocations: ClassVar[frozenset[Kind]] = frozenset((TOPIC, SEND))
    completions: ClassVar[frozenset[Kind]] = frozenset((TOPIC, SEND, POLL))

    def __init__(self, book: RecordBook, findings: Findings | None = None) -> None:
        super().__init__(findings)
        self._book = book
        self._names: dict[str, TopicName] = {}
        self._asked: dict[int, CertainState] = {}
        self._shown: dict[tuple[int, str], tuple[str, Op]] = {}
        self._left: dict[tuple[int, str], set[str]] = {}
        self._first: dict[tuple[str, str], Op] = {}  # the entry that first showed an incarnation
        self._sent: dict[Value, TopicPartition] = {}

    def on_invocation(self, op: Op) -> None:
        """Record the certain state of a topic when a request that names the topic begins."""
        if isinstance(op.payload, Topic):
            name = self._name(op.payload.name)
            if op.payload.action != "find":
                name.changes += 1
                self._asked[op.process] = name.certain_state()._replace(changes=name.changes)
                name.open.add(op.process)
            else:
                self._asked[op.process] = name.certain_state()
        elif isinstance(op.payload, Send) and (named := name_and_id(op.payload.partition)) is not None:
            self._asked[op.process] = self._name(named[0]).certain_state()
            self._sent.update(dict.fromkeys(op.payload.values, op.payload.partition))

    def on_completion(self, invocation: Op, op: Op) -> None:
        """Process the outcome of a search for a topic, a creation, a deletion or a send, or received records."""
        if isinstance(op.payload, Topic):
            if op.payload.action == "find":
                self._on_find(invocation, op, op.payload)
            else:
                self._on_change(invocation, op, op.payload)
        elif isinstance(op.payload, Send):
            named = name_and_id(op.payload.partition)
            if named is not None and op.type == OK:
                self._record_shown(*named, op)
            elif named is not None and op.type == FAIL and op.error.startswith("UnknownTopic"):
                self._on_unknown(named[0], invocation, op)
        elif isinstance(op.payload, Poll) and op.type == OK:
            for fetched in op.payload.fetched:
                if (named := name_and_id(fetched.partition)) is not None:
                    self._record_shown(*named, op)
                    for value in fetched.values:
                        self._check_incarnation(value, fetched.partition, op)

    def _name(self, name: str) -> TopicName:
        """Return the state of a topic name; create it at the first use."""
        known = self._names.get(name)
        if known is None:
            known = self._names[name] = TopicName()
        return known

    # creations and deletions

    def _on_change(self, invocation: Op, op: Op, topic: Topic) -> None:
        """Process the outcome of a creation or deletion; report it if it contradicts the certain state before.

        That state is certain only if no other change of the topic was under way (`is_alone`)."""
        name, asked = self._name(topic.name), self._asked.pop(op.process)
        is_alone = name.changes == asked.changes
        name.changes += 1
        name.open.discard(op.process)
        if op.type == INFO:
            name.given_up.append(op)
            name.maybe_created += topic.action == "create"
            return
        was = asked.topic_id if is_alone else None
        if op.type == OK and topic.action == "create":
            name.acknowledged.add(topic.topic_id)
            if was:
                self._report_lost(topic.name, was, "and it could be created again", asked.since, op)
            self._settle(name, invocation, topic.topic_id if is_alone else None, op)
        elif op.type == OK:
            if was == NONE:
                self._report_resurrected(topic.name, "could be deleted", asked.since, op)
            self._settle(name, invocation, NONE if is_alone else None, op)
        elif op.error.startswith("UnknownTopic"):
            if was:
                self._report_lost(topic.name, was, "and it could not be deleted, being unknown", asked.since, op)
            self._settle(name, invocation, NONE if is_alone else None, op)
        elif op.error.startswith("TopicExists"):
            if was == NONE:
                self._report_resurrected(topic.name, "could not be created, because it exists", asked.since, op)
            self._settle(name, invocation, None, op)

    def _settle(self, name: TopicName, invocation: Op, topic_id: str | None, op: Op) -> None:
        """Record the topic id that an answer proves. It settles changes that were abandoned before its request."""
        name.given_up = [each for each in name.given_up if each.sequence > invocation.sequence]
        name.topic_id, name.since = topic_id, op

    def _report_lost(self, name: str, topic_id: str, text: str, since: Op | None, op: Op) -> None:
        """Report that a topic certainly exists since the entry `since`, although the answer `op` denies it."""
        self.findings.report("lost-topic", f"{incarnation_of(name, topic_id)} exists, {text}", (since, op))

    def _report_resurrected(self, name: str, text: str, since: Op | None, op: Op) -> None:
        """Report an answer according to which a topic exists although it was certainly deleted at the entry `since`."""
        self.findings.report("resurrected-topic", f"there is no topic {name}, and it {text}", (since, op))

    # what processes are shown

    def _on_find(self, invocation: Op, op: Op, topic: Topic) -> None:
        """Process the outcome of a search for a topic by name: its topic id, `NONE`, or no answer."""
        if op.type != OK:
            self._asked.pop(op.process, None)
        elif topic.topic_id == NONE:
            self._on_unknown(topic.name, invocation, op)
        else:
            self._asked.pop(op.process, None)
            self._record_shown(topic.name, topic.topic_id, op)

    def _on_unknown(self, name: str, invocation: Op, op: Op) -> None:
        """Process the answer that there is no topic of this name.

        Report it if the topic certainly existed for more than `DENIED_NS` before the request."""
        asked = self._asked.pop(op.process)
        is_unchanged = self._name(name).changes == asked.changes
        since = asked.since
        if asked.topic_id and is_unchanged and since and invocation.time_ns - since.time_ns > DENIED_NS:
            self._report_lost(name, asked.topic_id, "and it is unknown", since, op)
        shown = self._shown.pop((op.process, name), None)
        if shown is not None:
            self._left.setdefault((op.process, name), set()).add(shown[0])

    def _record_shown(self, name: str, topic_id: str, op: Op) -> None:
        """Record that an answer to the process showed the topic with this id.

        Report a topic id that another one had replaced, or that had been unknown, for this process."""
        self._first.setdefault((name, topic_id), op)
        key = (op.process, name)
        shown = self._shown.get(key)
        if shown is not None and shown[0] == topic_id:
            return
        left = self._left.setdefault(key, set())
        if topic_id in left:
            left.discard(topic_id)  # said once
            text = f"process {op.process} is shown {incarnation_of(name, topic_id)} again, which had gone for it"
            self.findings.report("resurrected-topic", text, (None if shown is None else shown[1], op))
        if shown is not None:
            left.add(shown[0])
        self._shown[key] = topic_id, op

    def _check_incarnation(self, value: Value, partition: TopicPartition, op: Op) -> None:
        """Report a value that was sent to another incarnation of the topic."""
        home = self._sent.get(value)
        if home is not None and home != partition:
            text = f"{partition} shows {value!r}, which belongs to {home}"
            self.findings.report("resurrected-topic", text, (op,))

    def finish(self) -> None:
        """Report topics that were never created, and set for each partition whether it may be deleted."""
        for name, known in self._names.items():
            shown = [topic_id for each, topic_id in self._first if each == name]
            unacknowledged = [topic_id for topic_id in shown if topic_id not in known.acknowledged]
            if len(unacknowledged) > known.maybe_created + len(known.open):
                text = f"never created: {', '.join(incarnation_of(name, each) for each in unacknowledged)}"
                text += f"; {known.maybe_created} creations of {name} have an unknown outcome"
                ops = [self._first[name, each] for each in unacknowledged]
                self.findings.report("resurrected-topic", text, ops)
        for book in self._book.partitions.values():
            book.may_be_deleted = self.may_be_deleted(book.name)

    def may_be_deleted(self, partition: TopicPartition) -> bool:
        """Return whether the partition may be deleted with its topic, according to the entries so far."""
        named = name_and_id(partition)
        return named is not None and not self._name(named[0]).is_certain_of(named[1])
