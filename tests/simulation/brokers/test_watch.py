"""Violations detected by the watcher of whole brokers: split clusters, differing copies, topics that reappear."""

from uuid import UUID

import pytest

from jepsen.simulation.brokers.watch import Watch
from jepsen.simulation.verdicts import PropertyBroken
from jepsen.simulation.virtual_time.loop import VirtualLoop
from raftlog.partitions.controller.machine import DeleteTopic
from raftlog.types import Offset
from tests.controller.machine.fleet import create, make_cluster, topic_id

KEY = UUID(int=5).bytes


def test_a_second_cluster_is_a_violation(loop: VirtualLoop) -> None:
    watch, one = Watch(loop), loop.add_node("n1")
    watch.observe_cluster_id(one, None)
    watch.observe_cluster_id(one, UUID(int=1))
    watch.observe_cluster_id(loop.add_node("n2"), str(UUID(int=1)))
    with pytest.raises(PropertyBroken, match="two-clusters"):
        watch.observe_cluster_id(one, UUID(int=2))


def test_different_states_at_one_applied_index_are_a_violation(loop: VirtualLoop) -> None:
    watch = Watch(loop)
    first, second = make_cluster(), make_cluster()
    watch.on_state(loop.add_node("n1"), first.state)
    first.apply(create("orders", 1, (1, 2, 3)))
    second.apply(create("bills", 2, (1, 2, 3)))
    watch.on_state(loop.add_node("n2"), first.state)
    with pytest.raises(PropertyBroken, match="controller-diverged"):
        watch.on_state(loop.add_node("n3"), second.state)


def test_a_deleted_topic_that_reappears_is_a_violation(loop: VirtualLoop) -> None:
    watch, node = Watch(loop), loop.add_node("n1")
    scribe = make_cluster()
    scribe.apply(create("orders", 1, (1, 2, 3)))
    row = scribe.state.topic("orders")
    watch.on_state(node, scribe.state)
    scribe.apply(DeleteTopic("orders", topic_id(1)))
    watch.on_state(node, scribe.state)
    assert watch.is_deleted(topic_id(1))
    scribe.apply(create("bills", 2, (1, 2, 3)))
    scribe.state.put_topic(row)
    with pytest.raises(PropertyBroken, match="topic-resurrected"):
        watch.on_state(node, scribe.state)


def test_a_report_before_the_commit_is_a_violation(loop: VirtualLoop) -> None:
    watch = Watch(loop)
    with pytest.raises(PropertyBroken, match="acknowledged-uncommitted"):
        watch.observe_acknowledgement(KEY, "orders/0", Offset(0), Offset(1))
    with pytest.raises(PropertyBroken, match="uncommitted-shown"):
        watch.observe_end(KEY, "orders/0", Offset(1))
    watch.observe_end(KEY, "orders/0", Offset(0))
