"""Leader's progress of one follower: windows, lost probes, lost appends."""

import pytest

from raftlog.raft.progress import FollowerProgress, ProgressState
from raftlog.raft.settings import RaftSettings
from raftlog.types import Index
from tests.raft.lone import TWO


def _replicating(match: int = 10, sequence: int = 5) -> FollowerProgress:
    progress = FollowerProgress(TWO, Index(match + 1), 0)
    progress.acknowledge(Index(match), sequence)
    progress.become_replicate(Index(match), sequence)
    return progress


def test_a_probe_is_sent_alone_until_it_is_answered_or_lost() -> None:
    progress = FollowerProgress(TWO, Index(4), 0)
    assert progress.find_room(RaftSettings()) != (0, 0)
    progress.note_probe(7)
    assert progress.find_room(RaftSettings()) == (0, 0)
    assert not progress.has_lost_probe(7), "the answer to the probe itself is on its way"
    assert progress.has_lost_probe(8)


def test_the_window_counts_entries_and_bytes_not_durable_at_the_follower() -> None:
    settings = RaftSettings(in_flight_entries_max=10, in_flight_bytes_max=100)
    progress = _replicating()
    progress.note_append(Index(14), 60)
    progress.note_append(Index(16), 30)
    assert progress.find_room(settings) == (4, 10)
    assert progress.acknowledge(Index(14), 9)
    assert progress.find_room(settings) == (8, 70)
    assert not progress.acknowledge(Index(14), 9)


def test_acknowledged_entries_are_never_resent() -> None:
    progress = _replicating()
    progress.become_probe(Index(3), 6)
    assert progress.next_index == 11
    assert progress.acknowledge(Index(20), 7)
    assert progress.next_index == 21
    assert not progress.acknowledge(Index(15), 8)
    assert (progress.match_index, progress.match_sequence) == (20, 7)


@pytest.mark.parametrize("answered", [8, 9])
def test_an_answer_without_earlier_entries_reveals_a_loss(
    answered: int,
) -> None:
    progress = _replicating()
    progress.note_append(Index(12), 1)
    progress.mark_heartbeat(8)
    progress.note_append(Index(13), 1)
    assert not progress.detect_lost_appends(7, Index(10))
    assert progress.detect_lost_appends(answered, Index(11))
    assert not progress.detect_lost_appends(answered, Index(11)), "reported once"


def test_an_answer_with_all_entries_reveals_no_loss() -> None:
    progress = _replicating()
    progress.note_append(Index(12), 1)
    progress.mark_heartbeat(8)
    assert not progress.detect_lost_appends(8, Index(12))


def test_a_mark_ends_with_its_replication_state() -> None:
    progress = _replicating()
    progress.note_append(Index(12), 1)
    progress.mark_heartbeat(8)
    progress.become_probe(Index(11), 9)
    progress.become_replicate(Index(10), 9)
    progress.note_append(Index(12), 1)
    assert not progress.detect_lost_appends(9, Index(10))
    probing = FollowerProgress(TWO, Index(4), 0)
    probing.mark_heartbeat(3)
    assert probing.state is ProgressState.PROBE
    assert probing.mark_sequence == 0


def test_a_probe_resets_the_window() -> None:
    settings = RaftSettings(in_flight_entries_max=10, in_flight_bytes_max=100)
    progress = _replicating()
    progress.note_append(Index(14), 60)
    progress.become_probe(Index(11), 6)
    progress.become_replicate(Index(10), 7)
    assert progress.find_room(settings) == (10, 100)
    progress.note_append(Index(12), 30)
    assert progress.acknowledge(Index(12), 9)
    assert progress.find_room(settings) == (10, 100)


def _lag(progress: FollowerProgress, committed: int, tick: int) -> int:
    return progress.status(Index(committed), tick).lag_ticks


def test_the_lag_counts_from_the_last_time_of_no_missing_commit() -> None:
    progress = _replicating(10)
    assert _lag(progress, 10, 5_000) == 0, "nothing happened for long"
    progress.note_commit(Index(10), 5_000)
    assert _lag(progress, 11, 5_003) == 3
    progress.acknowledge(Index(11), 6)
    progress.update_held_tick(Index(11), 5_003)
    assert _lag(progress, 11, 6_000) == 0


def test_a_follower_always_one_commit_behind_has_a_bounded_lag() -> None:
    progress = _replicating(10)
    for tick in range(100, 200):
        progress.note_commit(Index(tick - 1), tick)  # which it does not hold yet
        progress.acknowledge(Index(tick - 1), tick)
        progress.update_held_tick(Index(tick), tick)
        assert tick < 102 or 0 < _lag(progress, tick, tick) <= 2
    for tick in range(200, 300):
        progress.note_commit(Index(tick - 1), tick)  # it stands still
        assert _lag(progress, tick, tick) >= tick - 200
    progress.acknowledge(Index(250), 300)  # the half of what it lacks
    progress.update_held_tick(Index(299), 300)
    assert _lag(progress, 299, 300) > 90


def test_a_follower_that_lost_entries_lags_at_once() -> None:
    progress = _replicating(10)
    progress.note_commit(Index(10), 70)
    progress.note_loss(Index(4))
    assert _lag(progress, 11, 71) > 1_000_000


def test_followers_of_a_new_leader_have_no_lag_at_first() -> None:
    progress = FollowerProgress(TWO, Index(4), 0, tick=500)
    assert _lag(progress, 3, 501) == 1
