"""Events in the brokers' logs when one of them stops and returns: each observer logs each change once."""

import logging

from raftlog.partitions.deadline import deadline_in
from tests.waiting import until


def find_events(caplog, name, **fields):
    """Return the log records of events with this name and these fields."""
    return [
        record
        for record in caplog.records
        if record.getMessage() == name and all(getattr(record, field) == value for field, value in fields.items())
    ]


async def test_the_stop_and_return_of_a_leader_are_logged_once_by_each_broker(brokers, caplog):
    caplog.set_level(logging.INFO, "raftlog")
    await brokers[1].create_topic("t", 1, deadline=deadline_in(10_000))
    leader = await brokers.leader("t")
    others = len(brokers.running) - 1
    await until(lambda: len(find_events(caplog, "replica_added", group="t/0", how="first")) == others + 1)
    assert len(find_events(caplog, "topic_created", topic="t")) == 1, "once for the whole cluster"
    assert len(find_events(caplog, "leader_elected", group="t/0")) == 1
    caplog.clear()
    await brokers.stop(leader)
    await brokers.leader("t")
    await until(lambda: len(find_events(caplog, "node_lost", node=leader)) == others)
    assert [record.why for record in find_events(caplog, "leadership_lost", group="t/0")] == ["handed over"]
    assert len(find_events(caplog, "leader_elected", group="t/0")) == 1
    await brokers.start(leader)
    await until(lambda: len(find_events(caplog, "node_connected", node=leader)) == others)
    assert len(find_events(caplog, "node_lost", node=leader)) == others
    assert [record.boot_epoch for record in find_events(caplog, "broker_registered", node=leader)] == [2]
    assert find_events(caplog, "replica_added") == []
    assert find_events(caplog, "topic_created") == [], "what was decided before is not logged again"
