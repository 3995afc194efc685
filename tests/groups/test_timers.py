"""Timers compared with a dictionary of due times."""

from hypothesis import given, settings
from hypothesis import strategies as st

from raftlog.partitions.groups.timers import Timers

FEW = settings(max_examples=40)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), st.sampled_from("abc"), st.integers(0, 20)),
        st.tuples(st.just("clear"), st.sampled_from("abc"), st.just(0)),
        st.tuples(st.just("take"), st.just(""), st.integers(0, 20)),
    ),
    max_size=30,
)


@FEW
@given(STEPS)
def test_the_next_timer_is_the_earliest_one_set(steps: list[tuple[str, str, int]]) -> None:
    timers: Timers[str] = Timers()
    due: dict[str, float] = {}
    for step, key, when in steps:
        if step == "set":
            timers.set(key, when)
            due[key] = when
        elif step == "clear":
            timers.clear(key)
            due.pop(key, None)
        else:
            taken = list(timers.take_due(when))
            assert sorted(taken) == sorted(name for name, at in due.items() if at <= when)
            assert taken == sorted(taken, key=due.__getitem__)
            due = {name: at for name, at in due.items() if at > when}
        assert timers.next_time() == min(due.values(), default=None)
        assert len(timers) == len(due)


def test_a_timer_that_is_moved_repeatedly_has_one_entry() -> None:
    timers: Timers[str] = Timers()
    for when in range(1000):
        timers.set("session", when)
        assert timers.next_time() == when
    assert len(timers._heap) == 1
