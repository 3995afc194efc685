"""Table from errors to HTTP statuses and error codes.

Codes are Confluent REST Proxy's where it has one: its first three digits are the status. raftlog's own are 40304 to
40306 (permissions on groups, the cluster and transactional ids), 40406 (no such broker), 40407 (no such member of a
group), 40408 (no such user), 40409 (no such transaction), 40904 (changed meanwhile), 40905 to 40911 (generations of
groups and sequences of producers), 40912 (user exists), 40913 to 40915 (states of transactions), 50303 (the partition
takes no records), 50304 (a group rebalances), 50305 (no memory left for requests or answers), 50306 (no file
descriptors left), 50307 and 50308 (a transaction is open), 50401 (unknown outcome), 50402 (appended long ago) and 50701
(no space left). An error without a row has that of its nearest base class. Brokers read the table from left to right,
and clients from right to left.
"""

from collections.abc import Mapping

from raftlog import errors
from raftlog.errors import RaftlogError

STATUS_AND_CODE: Mapping[type[RaftlogError], tuple[int, int]] = {
    errors.RaftlogError: (500, 50002),
    errors.RequestError: (400, 40002),
    errors.UndecodableBatch: (422, 42207),
    errors.RecordTooLarge: (413, 413),
    errors.UnknownTopic: (404, 40401),
    errors.UnknownPartition: (404, 40402),
    errors.UnknownBroker: (404, 40406),
    errors.VersionConflict: (409, 40904),
    errors.UnknownGroup: (404, 40405),
    errors.UnknownConsumer: (404, 40403),
    errors.UnknownMember: (404, 40407),
    errors.ConsumerExists: (409, 40902),
    errors.ConsumerState: (409, 40903),
    errors.StaleGeneration: (409, 40905),
    errors.FencedInstance: (409, 40906),
    errors.InconsistentProtocol: (409, 40907),
    errors.GroupNotEmpty: (409, 40908),
    errors.OutOfOrderSequence: (409, 40909),
    errors.ProducerFenced: (409, 40910),
    errors.UnknownProducer: (409, 40911),
    errors.InvalidProducerMapping: (409, 40913),
    errors.InvalidTransactionState: (409, 40914),
    errors.CoordinatorFenced: (409, 40915),
    errors.UnknownTransaction: (404, 40409),
    errors.UnknownUser: (404, 40408),
    errors.UserExists: (409, 40912),
    errors.DuplicateSequence: (504, 50402),
    errors.AuthenticationFailed: (401, 40101),
    errors.NotAuthorized: (403, 40301),
    errors.GroupNotAuthorized: (403, 40304),
    errors.ClusterNotAuthorized: (403, 40305),
    errors.TransactionalIdNotAuthorized: (403, 40306),
    errors.InvalidConsumer: (422, 42204),
    errors.Unavailable: (503, 50302),
    errors.RebalanceInProgress: (503, 50304),
    errors.ConcurrentTransactions: (503, 50307),
    errors.UnstableOffsets: (503, 50308),
    errors.Overloaded: (429, 42901),
    errors.MemoryBudgetExceeded: (503, 50305),
    errors.DescriptorsExhausted: (503, 50306),
    errors.StorageFull: (507, 50701),
    errors.LogDamaged: (503, 50303),
    errors.LogClosed: (503, 50303),
    errors.StorageError: (500, 50002),
    errors.SyncFailed: (504, 50401),
    errors.OutcomeUnknown: (504, 50401),
}


def status_and_code(error: RaftlogError) -> tuple[int, int]:
    """Return the HTTP status and the error code of an error."""
    for kind in type(error).__mro__:
        found = STATUS_AND_CODE.get(kind)
        if found is not None:
            return found
    raise AssertionError(f"{type(error).__name__} is outside the tree")
