"""Limit of failed logins: bursts, reservations, bounds, and addresses of one network."""

import math

import pytest

from raftlog.partitions.security.failure_limiter import ADDRESSES_MAX, BURST, RATE_PER_S, WAITING_MAX, FailureLimiter


def exhausted(address: str = "10.0.0.1") -> FailureLimiter:
    limiter = FailureLimiter()
    for _ in range(BURST):
        assert limiter.reserve(address, 0.0) == 0
        limiter.note_failure(address, 0.0, has_waited=False)
    return limiter


def test_a_burst_is_free_and_then_attempts_wait_in_turn() -> None:
    limiter = exhausted()
    waits = [limiter.reserve("10.0.0.1", 0.0) for _ in range(WAITING_MAX)]
    assert waits == [pytest.approx((number + 1) / RATE_PER_S) for number in range(WAITING_MAX)]
    assert limiter.reserve("10.0.0.1", 0.0) == math.inf
    assert limiter.reserve("10.0.0.2", 0.0) == 0


def test_a_reserved_failure_takes_no_second_token() -> None:
    limiter = exhausted()
    assert limiter.reserve("10.0.0.1", 0.0) == pytest.approx(0.5)
    limiter.note_failure("10.0.0.1", 0.5, has_waited=True)
    assert limiter.reserve("10.0.0.1", 0.5) == pytest.approx(0.5)


def test_a_success_returns_its_token() -> None:
    limiter = exhausted()
    assert limiter.reserve("10.0.0.1", 0.0) > 0
    limiter.note_success("10.0.0.1", 0.5)
    assert limiter.reserve("10.0.0.1", 0.5) == 0


def test_an_address_recovers_and_is_forgotten() -> None:
    limiter = exhausted()
    later = BURST / RATE_PER_S
    assert limiter.reserve("10.0.0.1", later) == 0
    limiter.note_success("10.0.0.1", later)
    assert len(limiter) == 0


def test_the_table_is_bounded() -> None:
    limiter = FailureLimiter()
    for number in range(ADDRESSES_MAX + 100):
        limiter.note_failure(f"host-{number}", 0.0, has_waited=False)
    assert len(limiter) == ADDRESSES_MAX


def test_addresses_of_one_network_count_together() -> None:
    limiter = exhausted("2001:db8::1")
    assert limiter.reserve("2001:db8::ffff", 0.0) > 0
    assert limiter.reserve("2001:db8:0:1::1", 0.0) == 0
    assert exhausted("::ffff:10.0.0.1").reserve("10.0.0.1", 0.0) > 0
    assert exhausted("fe80::1%eth0").reserve("fe80::2%eth0", 0.0) > 0
