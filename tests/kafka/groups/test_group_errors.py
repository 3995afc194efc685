"""Error codes in answers about groups."""

import pytest

from raftlog import errors
from raftlog.api.kafka.error_codes import ErrorCode
from raftlog.api.kafka.handlers.groups.group_errors import group_code, member_code
from raftlog.runtime.rpc.errors import NotConnected

CODES = [
    (errors.NotLeader("x"), 16, 16),
    (errors.NoLeader("x"), 15, 15),
    (errors.Unavailable("x"), 15, 15),
    (errors.Overloaded("x"), 15, 15),
    (errors.StorageFull("x"), 15, 15),
    (errors.FormatError("x"), 15, 15),
    (NotConnected("x"), 15, 15),
    (errors.CoordinatorLoading("x"), 14, 15),
    (errors.RebalanceInProgress("x"), 27, 27),
    (errors.GroupFull("x"), 81, 81),
    (errors.UnknownMember("x"), 25, 25),
    (errors.StaleGeneration("x"), 22, 22),
    (errors.FencedInstance("x"), 82, 82),
    (errors.InconsistentProtocol("x"), 23, 23),
    (errors.InvalidGroup("x"), 24, 24),
    (errors.UnknownGroup("x"), 69, 69),
    (errors.GroupNotEmpty("x"), 68, 68),
    (errors.UnknownTopic("x"), 3, 3),
    (errors.InvalidArgument("x"), 42, 42),
    (errors.RecordTooLarge("x"), 10, 10),
    (errors.OutcomeUnknown("x"), 7, 15),
    (errors.DeadlineExceeded("x"), 7, 15),
    (errors.SyncFailed("x"), 7, 15),
]


@pytest.mark.parametrize(("error", "of_group", "of_member"), CODES, ids=lambda each: type(each).__name__)
def test_errors_have_their_codes(error, of_group, of_member):
    assert (group_code(error), member_code(error)) == (of_group, of_member)


def test_an_unknown_outcome_never_has_a_definite_code():
    def list_subclasses(kind: type[errors.RaftlogError]) -> list[type[errors.RaftlogError]]:
        return [kind, *(each for branch in kind.__subclasses__() for each in list_subclasses(branch))]

    unknown = [
        kind
        for kind in list_subclasses(errors.RaftlogError)
        if kind.outcome == "unknown" and kind.__module__ == errors.__name__
    ]
    assert len(unknown) >= 4
    for kind in unknown:
        error = kind("x")
        assert member_code(error) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert group_code(error) in (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
