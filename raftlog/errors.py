"""Every operating error of raftlog, in one tree.

    RaftlogError
    ├── RequestError            the caller's fault; repeating the same call fails again
    │   ├── InvalidArgument     a value, name or setting that cannot be used
    │   │   ├── InvalidTopic    a topic name that cannot be used
    │   │   └── PlacementImpossible   more replicas than hosts
    │   ├── InvalidBatch        a record batch that does not hold together (length, CRC, counts)
    │   │   └── UndecodableBatch    a stored batch whose records cannot be decoded; carries where, and the offset behind
    │   ├── RecordTooLarge      a record or batch above `max.message.bytes`
    │   ├── UnknownTopic · UnknownPartition · TopicExists
    │   ├── UnknownBroker       no broker of that node id, or not with that disk
    │   ├── IdentityRefused     a process that must not act as the broker that it says it is
    │   │   └── DiskRefused     its disk is stale, copied or retired; the next start takes a new disk uuid
    │   ├── VersionConflict     compare and set: it was changed meanwhile
    │   ├── UnknownGroup        no consumer group of that name
    │   ├── UnknownMember       the group has no such member (any more): join again as a new one
    │   ├── UnknownConsumer     no consumer instance of that name (REST)
    │   ├── StaleGeneration     a member speaks of another generation than the group's: join again
    │   ├── FencedInstance      another member took over this static instance
    │   ├── InconsistentProtocol   a member that shares no protocol with the others
    │   ├── GroupNotEmpty       what only an empty group allows
    │   ├── ConsumerExists · ConsumerState · InvalidConsumer    consumer instances (REST)
    │   ├── OutOfOrderSequence  a producer's sequence that jumps: something before it is missing
    │   ├── ProducerFenced      a newer epoch of this producer id has written
    │   ├── UnknownProducer     a producer id that was expired or never given out, or whose sequence goes on
    │   ├── OffsetOutOfRange    carries the first and the end offset
    │   ├── EntriesTrimmed      entries of a group's log that it does not hold any more
    │   └── NotAtBatchBorder    a cut inside a batch; carries the borders around it
    ├── Unavailable             not now; the same call may succeed later
    │   ├── Overloaded          a bounded queue is full
    │   │   └── MemoryBudgetExceeded   requests or answers hold all the memory that is meant for them
    │   ├── StorageFull         the disk has no room; reads and deletes go on
    │   ├── DescriptorsExhausted   the process has no file descriptor left for a file of a log
    │   ├── NotLeader           another replica leads, or none; carries the leader as far as known
    │   ├── NoLeader            nobody leads the partition until the deadline
    │   ├── OffsetNotAvailable  a new leader does not know yet how far the log is committed (KIP-207)
    │   ├── CoordinatorLoading  a new coordinator still reads what its groups are
    │   ├── RebalanceInProgress the group makes a new generation: join again
    │   ├── GroupFull           a bound on members or groups is reached
    │   ├── ChangeRefused       a change of members that cannot be made now
    │   ├── LogDamaged          a damaged log refuses appends until `raftlog log recover`
    │   └── LogClosed           closed, or stopped by a failed sync
    ├── StorageError            what the disk holds or does is wrong
    │   ├── CorruptBatch        file, position and offset of bytes that fail their checksum
    │   ├── JournalDamaged      something synced is gone from the journal: hard state may be lost
    │   ├── FormatError         another version, or not a raftlog directory
    │   │   └── SmallFileDamaged    a meta file, an identity or the like that fails its checksum
    │   ├── DirectoryLocked     another process has the directory open
    │   └── SyncFailed          an fsync failed; it is never retried
    └── OutcomeUnknown          the operation may or may not have happened
        ├── DeadlineExceeded    no answer in time after the append
        └── DuplicateSequence   appended before, so long ago that nobody knows its offset

`outcome` says what a caller may conclude: `failed` means it definitely did not happen, `unknown` means it may have.
`raftlog.runtime.rpc.errors` has the leaves for what happens between processes, which are `OSError`s as well.
A broken invariant is an `AssertionError` and belongs to no branch: it is never caught below the process boundary.
"""

from typing import ClassVar, Literal

from raftlog.types import Offset, Position, TopicPartition

Outcome = Literal["failed", "unknown"]


class RaftlogError(Exception):
    """Root of the tree; `outcome` is `failed` unless a branch says otherwise."""

    outcome: ClassVar[Outcome] = "failed"


class RequestError(RaftlogError):
    """The caller asked for something that cannot be done as asked."""


class InvalidArgument(RequestError):
    """A value, name or setting that cannot be used; the message says which values can."""


class InvalidTopic(InvalidArgument):
    """A topic name that cannot be used."""


class PlacementImpossible(InvalidArgument):
    """More replicas are wanted than there are hosts to put them on."""


class InvalidBatch(RequestError):
    """Bytes offered as a record batch that are not one."""


class UndecodableBatch(InvalidBatch):
    """A stored batch with a correct CRC whose records cannot be decoded: its producer wrote it so.

    `offset` is that of the first record that cannot be decoded; every reader returns those before it. No reader goes on
    by itself: seek to `next_offset`, which follows the batch, or read the batch as it is stored.
    """

    def __init__(
        self, base_offset: int, offset: int, next_offset: int, why: str, topic: str = "", partition: int = -1
    ) -> None:
        super().__init__(
            (f"{topic}/{partition}: " if topic else "")
            + f"the records from offset {offset} on cannot be decoded in the batch at offset {base_offset}: {why}; "
            f"go on behind it at offset {next_offset}"
        )
        self.base_offset, self.offset, self.next_offset, self.why = base_offset, offset, next_offset, why
        self.topic, self.partition = topic, partition

    @property
    def place(self) -> TopicPartition | None:
        """The partition, where the reader knows it."""
        return TopicPartition(self.topic, self.partition) if self.topic else None

    def at(self, place: TopicPartition) -> "UndecodableBatch":
        """The same error with the partition."""
        return type(self)(self.base_offset, self.offset, self.next_offset, self.why, *place)

    def __reduce__(self) -> tuple[type["UndecodableBatch"], tuple[int, int, int, str, str, int]]:
        """It goes from one process to another whole."""
        return type(self), (self.base_offset, self.offset, self.next_offset, self.why, self.topic, self.partition)


class RecordTooLarge(RequestError):
    """A record or batch above the topic's `max.message.bytes`."""


class UnknownTopic(RequestError):
    """No topic of that name."""


class UnknownPartition(RequestError):
    """The topic has no partition of that number."""


class TopicExists(RequestError):
    """A topic of that name exists already."""


class UnknownBroker(RequestError):
    """No broker of that node id, or not with that disk."""


class IdentityRefused(RequestError):
    """A process that must not act as the broker that it says it is (a stale or copied disk, a node id that another disk
    has); the message says what to do."""


class DiskRefused(IdentityRefused):
    """The cluster refuses this disk for good: it is stale, a copy, or was replaced.

    The next start on its directory takes a new disk uuid, keeps the old files aside, and is filled by the others.
    """


class VersionConflict(RequestError):
    """What was to be changed is not as the caller believes; read it again and decide anew."""


class UnknownGroup(RequestError):
    """No consumer group of that name: it never committed and has no members."""


class UnknownMember(RequestError):
    """The group has no member of that id, or not any more: join again without an id."""


class UnknownConsumer(RequestError):
    """No consumer instance of that name in the group, or it was idle for too long."""


class StaleGeneration(RequestError):
    """A member speaks of another generation than the group's: it was away while the others went on. Join again."""


class FencedInstance(RequestError):
    """Another member joined under the same static instance id: this one has to end (KIP-345)."""


class InconsistentProtocol(RequestError):
    """A member that shares no protocol, or not the type of protocol, with the group's other members."""


class GroupNotEmpty(RequestError):
    """The group has members, and this is possible only without."""


class ConsumerExists(RequestError):
    """A consumer instance of that name exists in the group already."""


class ConsumerState(RequestError):
    """A consumer instance cannot do that in its state, such as assigning partitions while it is subscribed."""


class InvalidConsumer(RequestError):
    """Settings of a consumer instance that cannot be used."""


class OutOfOrderSequence(RequestError):
    """A producer's sequence jumps: what lies between is missing, so nothing was appended."""


class ProducerFenced(RequestError):
    """The producer id was used with a newer epoch: this producer has to end, or to take a new id."""


class UnknownProducer(RequestError):
    """The partition does not know the producer id: it was never given out, was expired, or its sequence does not begin
    at 0. Nothing was appended; a greater id has to take its place (`BrokerClient.new_producer(is_fresh=True)`)."""


class OffsetOutOfRange(RequestError):
    """An offset outside `[first, end]`; `end` is the offset that the next record will get."""

    def __init__(self, offset: int, first: Offset, end: Offset) -> None:
        super().__init__(f"offset {offset} is out of range: the log holds offsets {first} to {end} (exclusive)")
        self.offset, self.first, self.end = offset, first, end


class EntriesTrimmed(RequestError):
    """Entries that were asked for by index lie before the beginning of the log; what they said is in a snapshot."""


class NotAtBatchBorder(RequestError):
    """A cut at an offset inside a batch; `below` and `above` are the nearest offsets at which a cut is possible."""

    def __init__(self, offset: int, below: Offset, above: Offset) -> None:
        super().__init__(f"offset {offset} lies inside a batch; the log can be cut at offset {below} or {above}")
        self.offset, self.below, self.above = offset, below, above


class Unavailable(RaftlogError):
    """The operation was refused for now."""


class Overloaded(Unavailable):
    """A bounded queue is full: slow down and try again."""


class MemoryBudgetExceeded(Overloaded):
    """Requests, or answers, hold all the memory that is meant for them: try again, or ask for less at once."""


class StorageFull(Unavailable):
    """No space left on the device. Nothing of the refused append was kept."""


class DescriptorsExhausted(Unavailable):
    """No file descriptor is left for a file of a log; the disk may have room. Nothing of a refused append was kept."""


class NotLeader(Unavailable):
    """This replica does not lead its group; `leader` is the replica that does, when it is known."""

    def __init__(self, message: str, leader: object | None = None) -> None:
        super().__init__(message)
        self.leader = leader


class NoLeader(Unavailable):
    """No leader of the partition was found before the deadline, and nothing was done."""


class OffsetNotAvailable(Unavailable):
    """The leader is new and has committed nothing in its term, so it cannot say where the log ends (KIP-207)."""


class CoordinatorLoading(Unavailable):
    """The coordinator of the group is new, and still reads what its groups are."""


class RebalanceInProgress(Unavailable):
    """The group makes a new generation: join again to belong to it."""


class GroupFull(Unavailable):
    """The group has as many members, or the coordinator as many groups, as it may have."""


class ChangeRefused(Unavailable):
    """A change of members that cannot be made now; the message says what it waits for."""


class LogDamaged(Unavailable):
    """The log holds damage and refuses appends; sound offsets stay readable."""


class LogClosed(Unavailable):
    """The log is closed."""


class StorageError(RaftlogError):
    """What the disk holds, or how it behaves, is wrong."""


class CorruptBatch(StorageError):
    """Stored bytes that fail their checks."""

    def __init__(self, file: str, position: Position, offset: Offset, why: str) -> None:
        super().__init__(f"{file}: corrupt batch at position {position}, offset {offset}: {why}")
        self.file, self.position, self.offset, self.why = file, position, offset, why

    def __reduce__(self) -> tuple[type["CorruptBatch"], tuple[str, Position, Offset, str]]:
        """It goes from one process to another whole."""
        return type(self), (self.file, self.position, self.offset, self.why)


class JournalDamaged(StorageError):
    """Something synced is gone or altered: hard state may be lost, so this disk must not vote under its old uuid.

    The caller takes a new disk uuid and joins every group again as a learner (design section 3).
    """

    def __init__(self, file: str, position: Position, why: str) -> None:
        super().__init__(
            f"{file}: the journal is damaged at position {position}: {why}; "
            "its hard state cannot be trusted, so this disk has to rejoin its groups under a new disk uuid"
        )
        self.file, self.position, self.why = file, position, why


class FormatError(StorageError):
    """A directory of another format version, or something that is not a raftlog directory."""


class SmallFileDamaged(FormatError):
    """A small file with one JSON object (meta file, identity, …) that cannot be read, or fails its checksum."""


class DirectoryLocked(StorageError):
    """Another process has the directory open."""


class SyncFailed(StorageError):
    """A sync failed, or a change was interrupted. What is on the disk is unknown now, so the log stops, and does not
    try again."""

    outcome: ClassVar[Outcome] = "unknown"


class OutcomeUnknown(RaftlogError):
    """It may have happened: the answer was lost, not the operation."""

    outcome: ClassVar[Outcome] = "unknown"


class DeadlineExceeded(OutcomeUnknown):
    """The append was made, but its durability was not confirmed before the deadline."""


class DuplicateSequence(OutcomeUnknown):
    """The producer's batch of this sequence was appended before, so long ago that its offset is not known any more."""
