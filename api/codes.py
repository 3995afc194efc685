"""The one table from errors to what a client sees: HTTP status and error code.

Codes are Confluent REST Proxy's where it has one: its first three digits are the status. raftlog's own are 40302 (of
another origin), 40303 (no host of this broker), 40406 (no
such broker), 40407 (no such member of a group), 40904 (changed meanwhile), 40905 to 40911 (generations of groups and
sequences of producers), 50303 (the partition takes no records), 50304 (a group rebalances), 50305 (no memory
left for requests or answers), 50306 (no file descriptors left), 50401 (unknown outcome), 50402 (appended long ago) and
50701 (no space left). An error without a row of its own has that of its nearest base class.
"""

from collections.abc import Mapping

from raftlog import errors
from raftlog.errors import RaftlogError

BAD_REQUEST = (400, 40002)
CROSS_ORIGIN = (403, 40302)
"""A request that a web page of another origin made."""
UNKNOWN_HOST = (403, 40303)
"""A name in `Host` that is not one of this broker."""
NOT_FOUND = (404, 404)
METHOD_NOT_ALLOWED = (405, 405)
BODY_TOO_SLOW = (408, 40801)
NOT_ACCEPTABLE = (406, 40601)
TOO_LARGE = (413, 413)
WRONG_CONTENT_TYPE = (415, 415)
INVALID_JSON = (422, 42203)
EMPTY_REQUEST = (422, 42208)
INTERNAL = (500, 50002)
UNKNOWN_V3 = (404, 40403)
"""An unknown topic or partition, as the v3 paths call it."""

STATUS_AND_CODE: Mapping[type[RaftlogError], tuple[int, int]] = {
    errors.RaftlogError: INTERNAL,
    errors.RequestError: BAD_REQUEST,
    errors.UndecodableBatch: (422, 42207),
    errors.RecordTooLarge: TOO_LARGE,
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
    errors.DuplicateSequence: (504, 50402),
    errors.InvalidConsumer: (422, 42204),
    errors.Unavailable: (503, 50302),
    errors.RebalanceInProgress: (503, 50304),
    errors.Overloaded: (429, 42901),
    errors.MemoryBudgetExceeded: (503, 50305),
    errors.DescriptorsExhausted: (503, 50306),
    errors.StorageFull: (507, 50701),
    errors.LogDamaged: (503, 50303),
    errors.LogClosed: (503, 50303),
    errors.StorageError: INTERNAL,
    errors.SyncFailed: (504, 50401),
    errors.OutcomeUnknown: (504, 50401),
}


def status_and_code(error: RaftlogError) -> tuple[int, int]:
    """HTTP status and error code of an error."""
    for kind in type(error).__mro__:
        found = STATUS_AND_CODE.get(kind)
        if found is not None:
            return found
    raise AssertionError(f"{type(error).__name__} is outside the tree")
