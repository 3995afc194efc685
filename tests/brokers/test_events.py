"""Events that brokers log when one of them stops and returns: each change once by each broker that observes it."""

import logging

from raftlog.partitions.deadline import deadline_in
from tests.waiting import until


def logged(caplog, name, **fields):
    """Return the log records of events of this name with these fields."""
    return [
        record
        for record in caplog.records
        if record.getMessage() == name and all(getattr(record, field) == value for field, value in fields.items())
    ]


async def test_a_leader_that_stops_and_comes_back(brokers, caplog):
    caplog.set_level(logging.INFO, "raftlog")
    await brokers[1].create_topic("t", 1, deadline=deadline_in(10_000))
    leader = await brokers.leader("t")
    others = len(brokers.running) - 1
    await until(lambda: len(logged(caplog, "replica_added", group="t/0", how="first")) == others + 1)
    assert len(logged(caplog, "topic_created", topic="t")) == 1, "once for the whole cluster"
    assert len(logged(caplog, "leader_elected", group="t/0")) == 1
    caplog.clear()
    await brokers.stop(leader)
    await brokers.leader("t")
    await until(lambda: len(logged(caplog, "node_lost", node=leader)) == others)
    assert [record.why for record in logged(caplog, "leadership_lost", group="t/0")] == ["handed over"]
    assert len(logged(caplog, "leader_elected", group="t/0")) == 1
    await brokers.start(leader)
    await until(lambda: len(logged(caplog, "node_connected", node=leader)) == others)
    assert len(logged(caplog, "node_lost", node=leader)) == others
    assert [record.boot_epoch for record in logged(caplog, "broker_registered", node=leader)] == [2]
    assert logged(caplog, "replica_added") == []
    assert logged(caplog, "topic_created") == [], "what was decided before is not logged again"
