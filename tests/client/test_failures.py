"""Every error of a broker is raised as the same class, or its nearest base, with the same outcome."""

import orjson
import pytest

from raftlog import errors
from raftlog.api.http.server.problems import error_body
from raftlog.client.failures import error_of, failure_of
from raftlog.types import TopicPartition
from raftlog.values.error_codes import STATUS_AND_CODE

DISTINGUISHABLE = {
    errors.RecordTooLarge: errors.RecordTooLarge,
    errors.UnknownTopic: errors.UnknownTopic,
    errors.UnknownPartition: errors.UnknownPartition,
    errors.UnknownBroker: errors.UnknownBroker,
    errors.VersionConflict: errors.VersionConflict,
    errors.UnknownGroup: errors.UnknownGroup,
    errors.UnknownMember: errors.UnknownMember,
    errors.ConsumerExists: errors.ConsumerExists,
    errors.ConsumerState: errors.ConsumerState,
    errors.StaleGeneration: errors.StaleGeneration,
    errors.UndecodableBatch: errors.RequestError,  # the body's fields say which batch; see below
    errors.FencedInstance: errors.FencedInstance,
    errors.InconsistentProtocol: errors.InconsistentProtocol,
    errors.GroupNotEmpty: errors.GroupNotEmpty,
    errors.OutOfOrderSequence: errors.OutOfOrderSequence,
    errors.ProducerFenced: errors.ProducerFenced,
    errors.UnknownProducer: errors.UnknownProducer,
    errors.DuplicateSequence: errors.DuplicateSequence,
    errors.InvalidProducerMapping: errors.InvalidProducerMapping,
    errors.InvalidTransactionState: errors.InvalidTransactionState,
    errors.CoordinatorFenced: errors.CoordinatorFenced,
    errors.UnknownTransaction: errors.UnknownTransaction,
    errors.ConcurrentTransactions: errors.ConcurrentTransactions,
    errors.UnstableOffsets: errors.UnstableOffsets,
    errors.UnknownUser: errors.UnknownUser,
    errors.UserExists: errors.UserExists,
    errors.AuthenticationFailed: errors.AuthenticationFailed,
    errors.NotAuthorized: errors.NotAuthorized,
    errors.GroupNotAuthorized: errors.GroupNotAuthorized,
    errors.ClusterNotAuthorized: errors.ClusterNotAuthorized,
    errors.TransactionalIdNotAuthorized: errors.TransactionalIdNotAuthorized,
    errors.InvalidConsumer: errors.InvalidConsumer,
    errors.RebalanceInProgress: errors.RebalanceInProgress,
    errors.UnknownConsumer: errors.UnknownTopic,  # 40403 is v3's word for a topic
    errors.Unavailable: errors.Unavailable,
    errors.Overloaded: errors.Overloaded,
    errors.MemoryBudgetExceeded: errors.MemoryBudgetExceeded,
    errors.DescriptorsExhausted: errors.DescriptorsExhausted,
    errors.StorageFull: errors.StorageFull,
    errors.LogDamaged: errors.LogClosed,
    errors.LogClosed: errors.LogClosed,
    errors.StorageError: errors.StorageError,
    errors.SyncFailed: errors.DeadlineExceeded,
    errors.OutcomeUnknown: errors.DeadlineExceeded,
    errors.RequestError: errors.InvalidArgument,
    errors.RaftlogError: errors.StorageError,
}


def make_body(code: int, outcome: str, **more: object) -> bytes:
    return orjson.dumps({"error_code": code, "message": "what was wrong", "outcome": outcome, **more})


@pytest.mark.parametrize("kind", STATUS_AND_CODE, ids=lambda kind: kind.__name__)
def test_each_error_of_the_brokers_table_is_raised_with_its_class(kind: type[errors.RaftlogError]) -> None:
    status, code = STATUS_AND_CODE[kind]
    error = error_of(status, make_body(code, kind.outcome))
    assert type(error) is DISTINGUISHABLE[kind]
    assert error.outcome == kind.outcome
    assert str(error) == "what was wrong"


def test_the_outcome_of_the_body_takes_precedence_over_the_code() -> None:
    assert error_of(503, make_body(50303, "unknown")).outcome == "unknown"
    assert error_of(504, make_body(50401, "failed")).outcome == "failed"


def test_the_error_for_an_undecodable_batch_has_its_offsets() -> None:
    error = errors.UndecodableBatch(5, 6, 9, "why").located_at(TopicPartition("t", 0))
    again = error_of(*error_body(error))
    assert isinstance(again, errors.UndecodableBatch)
    assert (again.base_offset, again.offset, again.next_offset, str(again)) == (5, 6, 9, str(error))


def test_the_error_for_an_offset_out_of_range_has_the_bounds() -> None:
    error = error_of(400, make_body(40002, "failed", beginning_offset=5, end_offset=9))
    assert isinstance(error, errors.OffsetOutOfRange)
    assert (error.first, error.end) == (5, 9)
    assert str(error) == "what was wrong"


@pytest.mark.parametrize(
    ("status", "kind"),
    [(404, errors.RequestError), (418, errors.RequestError), (502, errors.Unavailable), (504, errors.DeadlineExceeded)],
)
def test_an_answer_of_another_program_is_classified_by_its_status(status: int, kind: type[Exception]) -> None:
    for content in (b"<html>", b"", b"[1]", b'{"error_code": "x"}'):
        error = error_of(status, content)
        assert type(error) is kind
        assert str(status) in str(error)


@pytest.mark.parametrize("kind", [errors.TopicExists, errors.NotServing])
def test_an_error_that_shares_its_code_with_others_has_its_own_class(kind: type[errors.RaftlogError]) -> None:
    error = error_of(*error_body(kind("what was wrong")))
    assert type(error) is kind
    assert (error.outcome, str(error)) == ("failed", "what was wrong")


def test_the_error_of_one_record_has_its_class() -> None:
    assert type(failure_of(42901, 429, "slow down", "failed", {})) is errors.Overloaded
