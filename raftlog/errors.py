"""Operating errors of raftlog, in one tree.

    RaftlogError
    ├── RequestError            the caller's error; the same call fails again
    │   ├── InvalidArgument     a value, name or setting that cannot be used
    │   │   ├── InvalidTopic · InvalidGroup   a name that no topic, or consumer group, can have
    │   │   ├── MissingKey      a record without a key for a compacted topic
    │   │   ├── InvalidTimestamp   a timestamp outside of the topic's bounds
    │   │   └── PlacementImpossible   more replicas than hosts
    │   ├── InvalidBatch        a malformed record batch (length, CRC, counts)
    │   │   ├── CrcMismatch     a batch that was damaged on its way
    │   │   └── UndecodableBatch    a stored batch whose records cannot be decoded; carries its offset and the next
    │   ├── RecordTooLarge      a record or batch above `max.message.bytes`
    │   ├── UnknownTopic · UnknownPartition · TopicExists
    │   ├── UnknownBroker       no broker of that node id, or not with that disk
    │   ├── IdentityRefused     a process that must not act as the broker whose identity it claims
    │   │   └── DiskRefused     its disk is stale, copied or retired; the next start takes a new disk uuid
    │   ├── VersionConflict     compare and set: the object was changed meanwhile
    │   ├── UnknownGroup        no consumer group of that name
    │   ├── UnknownMember · StaleGeneration   not (any more) a member, or not in this generation: join again
    │   ├── FencedInstance      another member took over this static instance
    │   ├── InconsistentProtocol   a member that shares no protocol with the others
    │   ├── GroupNotEmpty       the operation needs an empty group
    │   ├── UnknownConsumer · ConsumerExists · ConsumerState · InvalidConsumer    consumer instances (REST)
    │   ├── OutOfOrderSequence  a producer's sequence that jumps: an earlier batch is missing
    │   ├── ProducerFenced      a newer epoch of this producer id has written
    │   ├── InvalidProducerMapping   a producer id that is not that of the transactional id
    │   ├── UnknownTransaction · InvalidTransactionState   no such transaction, or not in a state for this
    │   ├── CoordinatorFenced   a marker of an older coordinator of the transaction
    │   ├── FencedLeaderEpoch   a leader epoch older than the leader's
    │   ├── UnknownProducer     a producer id that has expired or was never allocated, or a sequence not begun at 0
    │   ├── UnknownUser · UserExists
    │   ├── AuthenticationFailed   missing, wrong or expired credentials
    │   ├── NotAuthorized       an operation that the caller may not perform
    │   │   └── TopicNotAuthorized · GroupNotAuthorized · ClusterNotAuthorized · TransactionalIdNotAuthorized
    │   ├── OffsetOutOfRange    carries the first and the end offset
    │   ├── EntriesTrimmed      entries that were trimmed from the log of a Raft group
    │   └── NotAtBatchBorder    a cut inside a batch; carries the borders around it
    ├── Unavailable             not now; the same call may succeed later
    │   ├── NotServing          a broker that starts or stops: another one can serve the request
    │   ├── Overloaded          a bounded queue is full
    │   │   └── MemoryBudgetExceeded   requests or answers hold all of their memory budget
    │   ├── StorageFull         the disk has no room; reads and deletes go on
    │   ├── DescriptorsExhausted   the process has no file descriptor left for a file of a log
    │   ├── NotLeader           another replica leads, or none; carries the leader if known
    │   │   └── UnknownLeaderEpoch   a leader epoch newer than the leader's
    │   ├── NoLeader            the partition has no leader until the deadline
    │   ├── NotEnoughReplicas   fewer replicas than `min.insync.replicas` can be reached
    │   ├── OffsetNotAvailable  a new leader has no current high watermark yet (KIP-207)
    │   ├── CoordinatorLoading · RebalanceInProgress   the coordinator loads its groups, or the group rebalances
    │   ├── GroupFull           a bound on members or groups is reached
    │   ├── ConcurrentTransactions · UnstableOffsets   an earlier transaction, or that of the offsets, is open
    │   ├── ChangeRefused       a change of the Raft configuration that cannot be made now
    │   ├── LogDamaged          a damaged log refuses appends until `raftlog log recover`
    │   └── LogClosed           closed, or stopped by a failed sync
    ├── StorageError            bad contents of the disk, or a disk that misbehaves
    │   ├── CorruptBatch        file, position and offset of bytes that fail their checksum
    │   ├── JournalDamaged      synced bytes are missing from the journal: hard state may be lost
    │   ├── FormatError         another version, or not a raftlog directory
    │   │   └── SmallFileDamaged    a meta file, an identity or the like that fails its checksum
    │   ├── DirectoryLocked     another process has the directory open
    │   └── SyncFailed          an fsync failed; it is never retried
    └── OutcomeUnknown          the operation may or may not have happened
        ├── DeadlineExceeded    no answer in time after the append
        └── DuplicateSequence   appended before, so long ago that its offset is no longer kept

`outcome` is the caller's conclusion: `failed` means it definitely did not happen, `unknown` means it may have.
`raftlog.runtime.rpc.errors` has the leaves for connections between processes, which are `OSError`s as well.
A broken invariant is an `AssertionError` and belongs to no branch: it is never caught below the process boundary.
"""

from typing import ClassVar, Literal

from raftlog.types import Offset, Position, TopicPartition

Outcome = Literal["failed", "unknown"]


class RaftlogError(Exception):
    """Root of the tree; `outcome` is `failed` unless a branch overrides it."""

    outcome: ClassVar[Outcome] = "failed"


class RequestError(RaftlogError):
    """Base of the errors of requests that cannot be executed as they are: change the request before retrying."""


class InvalidArgument(RequestError):
    """Invalid value, name or setting; the message lists the valid ones."""


class InvalidTopic(InvalidArgument):
    """Invalid topic name."""


class MissingKey(InvalidArgument):
    """Record without a key for a compacted topic, in which it could never be replaced."""


class InvalidTimestamp(InvalidArgument):
    """Timestamp that no record can have, or that is too far from the broker's clock for its topic."""


class InvalidGroup(InvalidArgument):
    """Invalid name of a consumer group."""


class PlacementImpossible(InvalidArgument):
    """The replication factor is above the number of hosts."""


class InvalidBatch(RequestError):
    """Malformed record batch."""


class CrcMismatch(InvalidBatch):
    """Batch whose CRC does not match: it was damaged on its way."""


class UndecodableBatch(InvalidBatch):
    """Stored batch with a correct CRC whose records cannot be decoded: its producer wrote it so.

    `offset` is that of the first record that cannot be decoded; readers return the records before it. Readers do not
    skip the batch by themselves: seek to `next_offset`, which follows it, or read the batch as it is stored."""

    def __init__(
        self, base_offset: int, offset: int, next_offset: int, why: str, topic: str = "", partition: int = -1
    ) -> None:
        super().__init__(
            (f"{topic}/{partition}: " if topic else "")
            + f"the records from offset {offset} on cannot be decoded in the batch at offset {base_offset}: {why}; "
            f"continue after it at offset {next_offset}"
        )
        self.base_offset, self.offset, self.next_offset, self.why = base_offset, offset, next_offset, why
        self.topic, self.partition = topic, partition

    @property
    def place(self) -> TopicPartition | None:
        """Partition of the batch; None if it was read from a log that belongs to no topic."""
        return TopicPartition(self.topic, self.partition) if self.topic else None

    def located_at(self, place: TopicPartition) -> "UndecodableBatch":
        """Return a copy of the error for this partition."""
        return type(self)(self.base_offset, self.offset, self.next_offset, self.why, *place)

    def __reduce__(self) -> tuple[type["UndecodableBatch"], tuple[int, int, int, str, str, int]]:
        """Keep all fields when the error is pickled for another process."""
        return type(self), (self.base_offset, self.offset, self.next_offset, self.why, self.topic, self.partition)


class RecordTooLarge(RequestError):
    """A record or batch above the topic's `max.message.bytes`."""


class UnknownTopic(RequestError):
    """Topic that does not exist."""


class UnknownPartition(RequestError):
    """Partition number that the topic does not have."""


class TopicExists(RequestError):
    """Name of a topic that exists already."""


class UnknownBroker(RequestError):
    """Node id without a broker, or a broker with another disk."""


class IdentityRefused(RequestError):
    """The cluster refuses a process that must not act as the broker whose identity it claims.

    Its disk is stale or a copy, or another disk holds the node id; the message names the next step."""


class DiskRefused(IdentityRefused):
    """Permanent refusal of a disk that is stale, a copy, or was replaced; the next start takes a new disk uuid."""


class VersionConflict(RequestError):
    """The object has a newer version than the request expected. Read it again before retrying."""


class UnknownGroup(RequestError):
    """Consumer group that does not exist: it has no committed offsets and no members."""


class UnknownMember(RequestError):
    """Member id that the group does not have (any more): join again without an id."""


class UnknownConsumer(RequestError):
    """Consumer instance that does not exist in the group, or expired because it was idle."""


class StaleGeneration(RequestError):
    """Generation of a member that is not the group's: the group rebalanced without it. Join again."""


class FencedInstance(RequestError):
    """Static member that was replaced by another with the same instance id; it has to stop (KIP-345)."""


class InconsistentProtocol(RequestError):
    """Member without a common protocol, or protocol type, with the group's other members."""


class GroupNotEmpty(RequestError):
    """The operation needs a group without members, and this group has some."""


class ConsumerExists(RequestError):
    """Name of a consumer instance that exists in the group already."""


class ConsumerState(RequestError):
    """Operation that the state of a consumer instance rules out, such as `assign` while it is subscribed."""


class InvalidConsumer(RequestError):
    """Invalid settings of a consumer instance."""


class OutOfOrderSequence(RequestError):
    """Gap in a producer's sequence: an earlier batch is missing, so nothing was appended."""


class ProducerFenced(RequestError):
    """Producer id that was used with a newer epoch: this producer has to stop, or to take a new id."""


class InvalidProducerMapping(RequestError):
    """Producer id that is not the current one of the transactional id: initialize the producer again."""


class InvalidTransactionState(RequestError):
    """Operation that the state of the producer's transaction rules out, such as a write to a partition not in it."""


class CoordinatorFenced(RequestError):
    """Transaction marker of a coordinator that a newer one has replaced; nothing was written."""


class UnknownTransaction(RequestError):
    """Transactional id without a state: it was never initialized, or has expired."""


class FencedLeaderEpoch(RequestError):
    """Leader epoch that is older than the leader's: the metadata of the client is stale (KIP-320)."""


class UnknownProducer(RequestError):
    """Unknown producer id: it was never allocated or has expired, or its sequence does not begin at 0.

    Nothing was appended; a greater id has to take its place (`BrokerClient.new_producer(is_fresh=True)`)."""


class UnknownUser(RequestError):
    """The user does not exist, or has no credential for the mechanism."""


class UserExists(RequestError):
    """The user to be created exists already."""


class AuthenticationFailed(RequestError):
    """Missing, wrong or expired credentials; the message does not distinguish unknown users from wrong passwords."""


class NotAuthorized(RequestError):
    """Operation that the caller may not perform, whether or not its resource exists."""


class TopicNotAuthorized(NotAuthorized):
    """Operation on a topic that the caller may not perform."""


class GroupNotAuthorized(NotAuthorized):
    """Operation on a consumer group that the caller may not perform."""


class ClusterNotAuthorized(NotAuthorized):
    """Operation on the cluster that the caller may not perform."""


class TransactionalIdNotAuthorized(NotAuthorized):
    """Operation with a transactional id that the caller may not perform."""


class OffsetOutOfRange(RequestError):
    """Offset outside `[first, end]`; `end` is the offset of the next record."""

    def __init__(self, offset: int, first: Offset, end: Offset) -> None:
        super().__init__(f"offset {offset} is out of range: the log holds offsets {first} to {end} (exclusive)")
        self.offset, self.first, self.end = offset, first, end


class EntriesTrimmed(RequestError):
    """Entries before the beginning of the log; a snapshot holds their effect."""


class NotAtBatchBorder(RequestError):
    """Cut at an offset inside a batch; `below` and `above` are the nearest offsets at which a cut is possible."""

    def __init__(self, offset: int, below: Offset, above: Offset) -> None:
        super().__init__(f"offset {offset} lies inside a batch; the log can be cut at offset {below} or {above}")
        self.offset, self.below, self.above = offset, below, above


class Unavailable(RaftlogError):
    """Base of the errors of operations that are refused for now, and may succeed later."""


class NotServing(Unavailable):
    """Refusal by a broker that starts or stops, before it did anything: another broker can serve the request."""


class Overloaded(Unavailable):
    """Full queue: slow down and retry."""


class MemoryBudgetExceeded(Overloaded):
    """Requests or answers that hold all of their memory budget: retry, or request less at once."""


class StorageFull(Unavailable):
    """No space left on the device. A refused append was not stored."""


class DescriptorsExhausted(Unavailable):
    """No file descriptor left for a file of a log; the disk may have room. A refused append was not stored."""


class NotLeader(Unavailable):
    """Refusal by a replica that does not lead its Raft group; `leader` is the leading replica, if known."""

    def __init__(self, message: str, leader: object | None = None) -> None:
        super().__init__(message)
        self.leader = leader


class UnknownLeaderEpoch(NotLeader):
    """Leader epoch that is newer than that of this replica, which may be a deposed leader (KIP-320)."""


class NotEnoughReplicas(Unavailable):
    """Append that needs more replicas than can be reached (`min.insync.replicas`); nothing was appended."""


class NoLeader(Unavailable):
    """Partition without a leader until the deadline; the operation was not done."""


class OffsetNotAvailable(Unavailable):
    """The new leader has not committed an entry of its term, so its end offset may not be current (KIP-207)."""


class CoordinatorLoading(Unavailable):
    """The new coordinator of the group has not yet loaded its groups from the log."""


class RebalanceInProgress(Unavailable):
    """Rebalance of the group: join again to belong to the next generation."""


class GroupFull(Unavailable):
    """The group has the maximum number of members, or the coordinator that of groups."""


class ConcurrentTransactions(Unavailable):
    """Earlier transaction, or transition, of the producer that has not ended yet; nothing was done."""


class UnstableOffsets(Unavailable):
    """Committed offsets that an open transaction may still change (KIP-447)."""


class ChangeRefused(Unavailable):
    """The Raft configuration cannot be changed now; the message names the obstacle."""


class LogDamaged(Unavailable):
    """Damaged log, which refuses appends; undamaged offsets stay readable."""


class LogClosed(Unavailable):
    """The log is closed."""


class StorageError(RaftlogError):
    """Base of the errors of bad contents of the disk, or of a disk that misbehaves."""


class CorruptBatch(StorageError):
    """Stored bytes that fail their checks."""

    def __init__(self, file: str, position: Position, offset: Offset, why: str) -> None:
        super().__init__(f"{file}: corrupt batch at position {position}, offset {offset}: {why}")
        self.file, self.position, self.offset, self.why = file, position, offset, why

    def __reduce__(self) -> tuple[type["CorruptBatch"], tuple[str, Position, Offset, str]]:
        """Keep all fields when the error is pickled for another process."""
        return type(self), (self.file, self.position, self.offset, self.why)


class JournalDamaged(StorageError):
    """Synced bytes of the journal are missing or altered: hard state may be lost, so the disk must not vote.

    The caller takes a new disk uuid and joins every Raft group again as a learner (design section 3)."""

    def __init__(self, file: str, position: Position, why: str) -> None:
        super().__init__(
            f"{file}: the journal is damaged at position {position}: {why}; "
            "its hard state cannot be trusted, so this disk has to rejoin its Raft groups under a new disk uuid"
        )
        self.file, self.position, self.why = file, position, why


class FormatError(StorageError):
    """The directory has another format version, or was not written by raftlog."""


class SmallFileDamaged(FormatError):
    """Small file with one JSON object (meta file, identity, …) that cannot be read, or fails its checksum."""


class DirectoryLocked(StorageError):
    """Directory that another process has open."""


class SyncFailed(StorageError):
    """Failed sync or interrupted change. The contents of the disk are unknown, so the log stops and never retries."""

    outcome: ClassVar[Outcome] = "unknown"


class OutcomeUnknown(RaftlogError):
    """Operation that may have happened: its answer was lost."""

    outcome: ClassVar[Outcome] = "unknown"


class DeadlineExceeded(OutcomeUnknown):
    """The deadline has passed before the durability of the append was confirmed; it may still be stored."""


class DuplicateSequence(OutcomeUnknown):
    """Batch that was appended before, so long ago that its offset is no longer kept."""
