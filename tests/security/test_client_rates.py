"""Token buckets of client quotas: mean rates, delays, sharing, bounds; and the time of coroutines."""

import asyncio

import pytest

from raftlog.errors import OutcomeUnknown, TopicExists
from raftlog.partitions.caller import Caller
from raftlog.partitions.security import client_rates
from raftlog.partitions.security.client_rates import (
    DELAY_S_MAX,
    FETCHED,
    MUTATIONS,
    PRODUCED,
    REQUESTS,
    UNLIMITED,
    ClientRates,
    QuotaExceeded,
    RateBucket,
)
from raftlog.partitions.security.quotas import Quotas
from raftlog.runtime import timed_steps

ALICE = Caller("alice", "app", "10.0.0.1", "kafka")


class KnownQuotas(Quotas):
    """Quotas by entity, without a controller."""

    def __init__(self, rows: dict[tuple[tuple[str, str], ...], dict[str, float]]) -> None:
        self.rows = rows

    @property
    def has_any(self) -> bool:
        return bool(self.rows)

    def _value_of(self, entity: tuple[tuple[str, str], ...], name: str) -> float | None:
        return self.rows.get(entity, {}).get(name)


class Rates(ClientRates):
    """Rates with a clock that the test moves."""

    def __init__(self, rows: dict[tuple[tuple[str, str], ...], dict[str, float]]) -> None:
        self.now, self.quotas = 0.0, KnownQuotas(rows)
        super().__init__(self.quotas, lambda: self.now)
        self.refresh()


def test_the_mean_rate_is_the_quota_whatever_the_sizes() -> None:
    rates, sent = Rates({(("user", "alice"),): {PRODUCED: 1_000.0}}), 0
    for size in [10, 2_500, 1, 700, 4_000] * 40:
        rates.now += rates.delay_s(ALICE)
        rates.charge(PRODUCED, ALICE, size)
        sent += size
    rates.now += rates.delay_s(ALICE)
    assert sent / rates.now == pytest.approx(1_000, rel=0.01)


def test_a_second_of_the_rate_passes_at_once_and_more_is_delayed() -> None:
    rates = Rates({(("user", "alice"),): {PRODUCED: 1_000.0}})
    rates.charge(PRODUCED, ALICE, 1_000)
    assert rates.delay_s(ALICE) == 0
    rates.charge(PRODUCED, ALICE, 500)
    assert rates.delay_s(ALICE) == rates.delay_s(ALICE, PRODUCED) == pytest.approx(0.5)
    assert rates.delay_s(ALICE, FETCHED) == 0
    rates.now += 0.5
    assert rates.delay_s(ALICE) == 0
    rates.charge(PRODUCED, ALICE, 1e9)
    assert rates.delay_s(ALICE) == DELAY_S_MAX


def test_a_client_delays_only_those_that_share_its_quota() -> None:
    rates = Rates(
        {
            (("user", ""),): {PRODUCED: 100.0},
            (("client-id", "app"), ("user", "bob")): {PRODUCED: 10.0},
        }
    )
    rates.charge(PRODUCED, ALICE, 200)
    assert rates.delay_s(ALICE._replace(client_id="other", address="10.0.0.2")) == pytest.approx(1)
    assert rates.delay_s(ALICE._replace(principal="carol")) == 0
    bob = ALICE._replace(principal="bob")
    rates.charge(PRODUCED, bob, 20)
    assert rates.delay_s(bob) == pytest.approx(1)
    assert rates.delay_s(bob._replace(client_id="other")) == 0


def test_time_counts_in_percent() -> None:
    rates = Rates({(("user", "alice"),): {REQUESTS: 50.0}})
    rates.charge(REQUESTS, ALICE, 1.5)
    assert rates.delay_s(ALICE) == pytest.approx(2)


def test_changed_and_removed_quotas_are_followed() -> None:
    rates = Rates({(("user", "alice"),): {PRODUCED: 100.0}})
    rates.charge(PRODUCED, ALICE, 1_100)
    assert rates.delay_s(ALICE) == pytest.approx(10)
    rates.quotas.rows = {(("user", "alice"),): {PRODUCED: 1_000.0}}
    rates.refresh()
    assert rates.delay_s(ALICE) == pytest.approx(1)
    rates.quotas.rows = {}
    rates.refresh()
    assert not rates.is_on
    assert rates.delay_s(ALICE) == 0
    assert not UNLIMITED.is_on
    assert UNLIMITED.admits("10.0.0.1")


def test_connections_of_an_address_are_limited() -> None:
    rates = Rates({(("ip", ""),): {"connection_creation_rate": 2.0}})
    assert [rates.admits("10.0.0.1") for _ in range(3)] == [True, True, False]
    assert rates.admits("10.0.0.2")
    rates.now += 0.5
    assert [rates.admits("10.0.0.1") for _ in range(2)] == [True, False]


def test_a_slow_rate_of_connections_admits_one_at_a_time() -> None:
    bucket = RateBucket(0.5, 0.0)
    assert [bucket.maybe_take(now) for now in (0.0, 1.0, 2.0, 3.5, 100.0, 100.1)] == [
        True,
        False,
        True,
        False,
        True,
        False,
    ]


def test_the_number_of_clients_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_rates, "CLIENTS_MAX", 10)
    rates = Rates({(("client-id", ""),): {PRODUCED: 10.0}})
    for number in range(100):
        rates.charge(PRODUCED, ALICE._replace(client_id=str(number)), 1_000)
    assert len(rates._buckets) <= 10
    assert len(rates._found) <= 10
    assert rates.delay_s(ALICE._replace(client_id="99")) > 0


async def test_only_the_steps_of_a_coroutine_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 0.0
    monkeypatch.setattr(timed_steps, "perf_counter", lambda: now_s)

    async def work(turn: "asyncio.Future[None]") -> str:
        nonlocal now_s
        now_s += 2.0
        await turn
        now_s += 3.0
        return "done"

    turn = asyncio.get_running_loop().create_future()
    timed = timed_steps.TimedSteps(work(turn))
    waiting = asyncio.ensure_future(timed)
    await asyncio.sleep(0)
    now_s += 100.0
    turn.set_result(None)
    assert await waiting == "done"
    assert timed.seconds == 5.0


async def test_errors_and_cancellations_reach_the_coroutine() -> None:
    reached: list[type[BaseException]] = []

    async def work(future: "asyncio.Future[None]") -> None:
        try:
            await future
        except BaseException as error:
            reached.append(type(error))
            raise

    async def run(future: "asyncio.Future[None]") -> None:
        await timed_steps.TimedSteps(work(future))

    for fails in (True, False):
        future = asyncio.get_running_loop().create_future()
        task = asyncio.ensure_future(run(future))
        await asyncio.sleep(0)
        if fails:
            future.set_exception(ValueError("wrong"))
        else:
            task.cancel()
        with pytest.raises((ValueError, asyncio.CancelledError)):
            await task
    assert reached == [ValueError, asyncio.CancelledError]


class TestMutations:
    """Quota on changed partitions."""

    def limit(self, rate: float) -> Rates:
        return Rates({(("user", "alice"),): {MUTATIONS: rate}})

    def change(self, rates: Rates, partitions: int, *, is_strict: bool = True) -> None:
        with rates.mutation(ALICE, partitions, is_strict=is_strict):
            pass

    def test_changes_above_the_quota_are_refused_until_their_time(self) -> None:
        rates = self.limit(2.0)
        self.change(rates, 12)
        with pytest.raises(QuotaExceeded, match="retry after 5 s") as raised:
            self.change(rates, 1)
        assert raised.value.retry_after_s == 5
        assert (rates.throttles[MUTATIONS], rates.throttled_s[MUTATIONS]) == (1, 5)
        assert rates.delay_s(ALICE) == 0, "other requests are not delayed"
        rates.now = 5.0
        self.change(rates, 1)

    def test_a_large_change_counts_whole(self) -> None:
        rates = self.limit(1.0)
        self.change(rates, 10_000)
        rates.now = 9_998.0
        with pytest.raises(QuotaExceeded):
            self.change(rates, 1)

    def test_old_clients_are_delayed_and_not_refused(self) -> None:
        rates = self.limit(1.0)
        for _ in range(3):
            self.change(rates, 2, is_strict=False)
        assert rates.delay_s(ALICE, MUTATIONS) == 5

    def test_a_refused_change_costs_nothing_and_an_unknown_one_counts(self) -> None:
        rates = self.limit(1.0)
        for _ in range(3):
            with pytest.raises(TopicExists), rates.mutation(ALICE, 100):
                raise TopicExists("t")
        assert rates.delay_s(ALICE, MUTATIONS) == 0
        with pytest.raises(OutcomeUnknown), rates.mutation(ALICE, 100):
            raise OutcomeUnknown("perhaps")
        assert rates.delay_s(ALICE, MUTATIONS) == 99

    def test_others_and_clients_without_a_quota_are_free(self) -> None:
        rates = self.limit(1.0)
        bob = ALICE._replace(principal="bob")
        with rates.mutation(bob, 1_000):
            pass
        assert rates.delay_s(bob, MUTATIONS) == 0
        with UNLIMITED.mutation(ALICE, 1_000):
            pass
        assert UNLIMITED.delay_s(ALICE, MUTATIONS) == 0
        self.change(rates, 1)
        assert rates.delay_s(ALICE, MUTATIONS) == 0


def test_throttled_requests_are_counted_by_their_quota() -> None:
    rates = Rates(
        {(("user", "alice"),): {PRODUCED: 10.0, FETCHED: 100.0}, (("ip", ""),): {"connection_creation_rate": 1}}
    )
    rates.charge(PRODUCED, ALICE, 30)
    rates.charge(FETCHED, ALICE, 150)
    assert rates.throttle_s(ALICE) == 2
    assert rates.throttle_s(ALICE, FETCHED) == 0.5
    assert rates.throttle_s(ALICE, REQUESTS) == 0
    assert rates.admits("10.0.0.1")
    assert not rates.admits("10.0.0.1")
    assert {name: count for name, count in rates.throttles.items() if count} == {
        PRODUCED: 1,
        FETCHED: 1,
        "connection_creation_rate": 1,
    }
    assert rates.throttled_s[PRODUCED] == 2
