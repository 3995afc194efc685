"""Generated histories: every checker passes the clean ones and reports the anomaly that a mutation plants."""

from collections import Counter
from random import Random
from typing import get_args

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from jepsen.checkers import (
    AnomalyKind,
    Assign,
    MonotonicCheck,
    Op,
    Poll,
    Recorder,
    ReplicaComparison,
    Rules,
    Send,
    check_history,
    check_with,
    read_lines,
    write_lines,
)
from jepsen.checkers.lag import RealtimeLag
from raftlog.types import TopicPartition
from tests.checkers.history_edits import known_offsets, list_acknowledged, list_pairs, renumber
from tests.checkers.model_log import CLEAN_HISTORIES, DRAIN, PARTITIONS, generate_clean_history
from tests.checkers.mutations import MUTATIONS

RULES = (Rules(), Rules(dense=False), Rules(forward_only_commits=False), Rules(dense=False, forward_only_commits=False))
LENIENT: dict[str, tuple[str, ...]] = {
    "gap": ("dense",),
    "committed-went-back": ("forward_only_commits",),
}
"""Rules without which a kind is no anomaly."""
PLANTED_BY_HAND = {
    "realtime-lag",
    "replicas-differ",
    "lost-commit",
    "two-owners",
    "generation-went-back",
    "fenced-commit",
    "unhandled",
    "handled-out-of-order",
    "sequence-order",
    "sequence-gap",
    "lost-key",
    "resurrected-key",
    "trim-undone",
    "not-linearizable",
    "lost-topic",
    "resurrected-topic",
    "torn-transaction",
    "intermediate-read",
    "aborted-offset",
    "stale-offset",
    "consumed-twice",
    "skipped-input",
    "unbalanced",
    "write-cycle",
    "circular-information-flow",
}
"""Kinds that the model's histories have no place for: the first two are planted below, the others in `test_members`,
`test_linearizability`, `test_topics` and `test_transactions`."""
AS_WELL = {"int-poll-skip", "poll-skip", "stale-end"}
"""Kinds that, without density, need a record between that was seen, or above the end (see `test_transactions`)."""


@settings(max_examples=120)
@given(history=CLEAN_HISTORIES)
def test_a_clean_history_passes_all_checkers(history: list[Op]) -> None:
    for rules in RULES:
        verdict = check_history(history, rules)
        assert verdict.is_clean(), str(verdict)
        assert verdict.operations == sum(op.type == "invoke" for op in history)
        strict = rules._replace(lag_bound_ns=verdict.worst_lag_ns)
        assert check_history(history, strict).is_clean(), "no client lagged more than the worst"


@settings(max_examples=40)
@given(history=CLEAN_HISTORIES, data=st.data())
def test_a_prefix_of_a_clean_history_has_only_unread_records(history: list[Op], data: st.DataObject) -> None:
    beginning = history[: data.draw(st.integers(0, len(history)))]
    verdict = check_history(beginning)
    assert verdict.is_clean(["unseen", "lost-write"]), str(verdict)


@settings(max_examples=20)
@given(history=CLEAN_HISTORIES)
def test_a_history_equals_the_one_read_from_its_lines(history: list[Op]) -> None:
    assert list(read_lines(write_lines(history))) == history


@pytest.mark.parametrize("name", MUTATIONS)
@settings(max_examples=20)
@given(history=CLEAN_HISTORIES.filter(lambda history: len(history) > 60), seed=st.integers(0, 2**32))
def test_planted_anomalies_are_reported_by_name(name: str, history: list[Op], seed: int) -> None:
    mutation = MUTATIONS[name]
    planted = mutation.plant(history, Random(seed))
    assume(planted is not None)
    for rules in RULES:
        if mutation.kind in AS_WELL and not rules.dense:
            continue
        verdict = check_history(planted, rules)
        expected = all(getattr(rules, rule) for rule in LENIENT.get(mutation.kind, ()))
        assert (mutation.kind in verdict.counts) == expected, str(verdict)
        proofs = [anomaly.ops for anomaly in verdict.anomalies if anomaly.kind == mutation.kind]
        assert all(proof and set(proof) <= set(planted) for proof in proofs)


def test_mutations_cover_every_kind_and_apply_to_most_histories() -> None:
    kinds = {mutation.kind for mutation in MUTATIONS.values()}
    assert set(get_args(AnomalyKind)) - kinds == PLANTED_BY_HAND
    histories = [generate_clean_history(seed, 200) for seed in range(40)]
    found: Counter[str] = Counter()
    for name, mutation in MUTATIONS.items():
        found[name] = sum(mutation.plant(history, Random(1)) is not None for history in histories)
    assert min(found.values()) >= 15, found


# skips in a log that is not dense


@pytest.mark.parametrize("name", ["skip_records_between_polls", "leave_records_out_of_a_poll"])
@settings(max_examples=20)
@given(history=CLEAN_HISTORIES, seed=st.integers(0, 2**32))
def test_without_density_a_skip_over_a_polled_record_is_detected(name: str, history: list[Op], seed: int) -> None:
    kind, plant = MUTATIONS[name]
    planted = plant(history, Random(seed))
    assume(planted is not None)
    is_all_still_seen = all(known_offsets(planted, p) == known_offsets(history, p) for p in PARTITIONS)
    assert kind in check_history(planted, Rules(dense=False)).counts or not is_all_still_seen


# lag


def naive_lag_ns(history: list[Op], invoked: int, completed: int) -> int:
    """Return the lag of one poll by a scan of all entries before it; `invoked` and `completed` are its indexes."""
    process, acknowledged = history[invoked].process, list[tuple[int, TopicPartition, int]]()
    last: dict[TopicPartition, int] = {}
    since_ns, is_subscribed = 0, False
    for op in history[: completed + 1]:
        if op.type == "ok" and isinstance(op.payload, Send):
            acknowledged += [(op.time_ns, op.payload.partition, offset) for offset in op.payload.offsets]
        elif op.process == process and op.kind == "crash":
            last, since_ns, is_subscribed = {}, 0, False
        elif op.process == process and op.kind in ("assign", "subscribe") and op.type in ("ok", "info"):
            is_subscribed = op.kind == "subscribe" or (op.type == "info" and is_subscribed)
            last, since_ns = {}, op.time_ns
            for partition, offset in op.payload.positions if op.kind == "assign" and op.type == "ok" else ():
                newest = max((at for _, p, at in acknowledged if p == partition), default=-1)
                last[partition] = newest if offset is None else offset - 1
        elif op.process == process and op.type == "ok" and isinstance(op.payload, Poll):
            last = {} if is_subscribed else last
            last |= {fetched.partition: fetched.offsets[-1] for fetched in op.payload.fetched if fetched.offsets}
    lags = [0]
    for partition, offset in last.items():
        missed = [time_ns for time_ns, p, at in acknowledged if p == partition and at > offset]
        lags += [history[invoked].time_ns - max(min(missed), since_ns)] if missed else []
    return max(lags)


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32), steps=st.integers(0, 150))
def test_the_worst_lag_is_the_highest_lag_of_all_polls(seed: int, steps: int) -> None:
    history = generate_clean_history(seed, steps)
    observed: list[tuple[int, int, int]] = []
    checker = RealtimeLag(observe=lambda *seen: observed.append(seen))
    assert not check_with(checker, history).counts
    answered = [(i, at) for i, at in list_pairs(history, "poll") if at is not None and history[at].type == "ok"]
    lags = [(history[i].time_ns, history[i].process, naive_lag_ns(history, i, at)) for i, at in answered]
    assert sorted(observed) == sorted(lags)
    assert checker.worst_ns == max((lag_ns for _, _, lag_ns in lags), default=0)


@settings(max_examples=20)
@given(history=CLEAN_HISTORIES, spare_ns=st.integers(0, 1000))
def test_a_reader_without_records_is_detected_after_the_bound_and_not_before(history: list[Op], spare_ns: int) -> None:
    acked = [(sent.partition, offset) for sent, offset in list_acknowledged(history)]
    assume(acked)
    bound_ns = check_history(history).worst_lag_ns + spare_ns
    now_ns, later_ns = history[-1].time_ns, history[-1].time_ns + bound_ns
    times = iter((now_ns, now_ns, later_ns, later_ns, later_ns + 1, later_ns + 1))
    told: list[Op] = []
    recorder = Recorder(lambda: next(times), told.append)
    recorder.ok(recorder.invoke(DRAIN, "assign", Assign((acked[0],))))
    for _ in range(2):
        recorder.ok(recorder.invoke(DRAIN, "poll", Poll()))
    stuck = renumber([*history, *told])
    assert check_history(stuck[:-2], Rules(lag_bound_ns=bound_ns)).is_clean()
    verdict = check_history(stuck, Rules(lag_bound_ns=bound_ns))
    assert verdict.counts == {"realtime-lag": 1}
    assert verdict.worst_lag_ns == bound_ns + 1
    assert verdict.anomalies[0].ops[-1] == stuck[-1]


# what is not in a history


@given(steps=st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3)), max_size=40), data=st.data())
def test_rising_numbers_pass_and_any_falling_one_is_detected(steps: list[tuple[str, int]], data: st.DataObject) -> None:
    guard = MonotonicCheck()
    reached: dict[str, int] = {}
    for key, step in steps:
        reached[key] = reached.get(key, 0) + step
        assert guard.observe(key, reached[key]) is None
    fallible = [key for key, number in reached.items() if number > 0]
    assume(fallible)
    key = data.draw(st.sampled_from(fallible))
    lower = data.draw(st.integers(0, reached[key] - 1))
    anomaly = guard.observe(key, lower)
    assert anomaly is not None
    assert (anomaly.kind, anomaly.what) == ("end-went-back", f"{key} went back from {reached[key]} to {lower}")
    assert guard.observe(key, reached[key] - 1) is not None, "what fell once must not lower the bar"


@given(log=st.lists(st.binary(max_size=6), min_size=1, max_size=20), seed=st.integers(0, 2**32))
def test_equal_replicas_pass_and_a_differing_one_is_detected(log: list[bytes], seed: int) -> None:
    """Replicas commit in any interleaving, with restarts that commit again and trims behind the slowest one."""
    random = Random(seed)
    comparison = ReplicaComparison()
    reached = dict.fromkeys(("n1", "n2", "n3"), 0)
    while (behind := [name for name, index in reached.items() if index < len(log)]) and random.random() < 0.98:
        name = random.choice(behind)
        assert comparison.feed(name, reached[name], log[reached[name]]) is None
        reached[name] += 1
        if random.random() < 0.1:
            comparison.trim(min(reached.values()))
        if random.random() < 0.1:
            reached[name] = random.randint(min(reached.values()), reached[name])
    slowest, fastest = min(reached.values()), max(reached.values())
    comparison.trim(slowest)
    for index in range(slowest, fastest):
        other = bytes(byte ^ 1 for byte in log[index]) or b"!"
        anomaly = comparison.feed("n4", index, other)
        assert anomaly is not None
        assert anomaly.kind == "replicas-differ"
    assert comparison.feed("n4", slowest - 1, b"forgotten") is None
