"""Liveness of peers by heartbeats: alive, silent, unknown."""

from raftlog.partitions.node.liveness import SILENCE_S, HeartbeatTimes
from raftlog.types import NodeId

ONE, OTHER = NodeId(1), NodeId(2)


def test_a_process_is_silent_only_after_its_heartbeats_stop() -> None:
    now = 10.0
    hearing = HeartbeatTimes(lambda: now)
    hearing.record_heartbeat(ONE)
    now += SILENCE_S
    assert (hearing.is_silent(ONE), hearing.is_silent(OTHER)) == (False, False)
    now += 0.01
    assert (hearing.is_silent(ONE), hearing.is_silent(OTHER)) == (True, False)
    assert (hearing.heard_at(ONE), hearing.heard_at(OTHER)) == (10.0, None)


def test_a_new_connection_restarts_the_silence_of_a_known_peer() -> None:
    now = 10.0
    hearing = HeartbeatTimes(lambda: now)
    hearing.record_heartbeat(ONE)
    now += 2 * SILENCE_S
    hearing.restart_timeout(ONE)
    hearing.restart_timeout(OTHER)
    assert not hearing.is_silent(ONE)
    now += 2 * SILENCE_S
    assert (hearing.is_silent(ONE), hearing.is_silent(OTHER)) == (True, False)
