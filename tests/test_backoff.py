"""Pauses between attempts (backoff)."""

from random import Random

from raftlog.backoff import Backoff


def test_pauses_double_up_to_a_bound_and_reset_after_a_success() -> None:
    backoff = Backoff(0.1, 1.0)
    assert [backoff.next_pause_s() for _ in range(6)] == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    backoff.reset(0.5)
    assert backoff.next_pause_s() == 1.0, "a connection that breaks at once changes nothing"
    backoff.reset(1.0)
    assert backoff.next_pause_s() == 0.1
    backoff.reset()
    assert backoff.next_pause_s() == 0.1


def test_random_pauses_differ() -> None:
    backoff = Backoff(0.1, 1.0, Random(1))
    pauses = [backoff.next_pause_s() for _ in range(8)]
    for pause, whole in zip(pauses, [0.1, 0.2, 0.4, 0.8, 1, 1, 1, 1], strict=True):
        assert whole / 2 <= pause <= whole
    assert len(set(pauses)) == len(pauses)
