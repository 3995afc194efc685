"""Conditions to recover a partition, its surviving replica, and the reported loss."""

from uuid import UUID

import pytest
from msgspec.structs import replace

from raftlog.errors import OutcomeUnknown
from raftlog.partitions.placement.recovery.plan import KnownPlaces, Plan, make_plan
from raftlog.partitions.placement.recovery.replica_status import (
    AbsentReplica,
    LostEntry,
    ReplicaStatus,
    pack_status,
    unpack_status,
)
from raftlog.raft import EntryId, ReplicaId
from raftlog.types import Index, NodeId, Term

ALL = (1, 2, 3)


def replica(node: int, disk: int = 0) -> ReplicaId:
    return ReplicaId(NodeId(node), UUID(int=disk or node))


def entry(index: int, term: int = 1) -> EntryId:
    return EntryId(Index(index), Term(term))


def make_status(
    node: int,
    last: EntryId = entry(10),  # noqa: B008 - a tuple
    *,
    voters: tuple[int, ...] = ALL,
    outgoing: tuple[int, ...] = (),
    lost: tuple[int, ...] | None = (),
    floor: EntryId | None = None,
    leads: bool = False,
) -> ReplicaStatus:
    """Return a replica's report; `lost` are offsets of damaged batches, `None` during the check for damage."""
    damage = "bad" if lost is None or lost else None
    entries = None if lost is None else tuple(LostEntry(offset, offset + 1, "bad") for offset in lost)
    sides = (tuple(map(replica, voters)), tuple(map(replica, outgoing)))
    return ReplicaStatus(
        replica(node), last.term, leads, None, last, floor or last, 0, last.index, *sides, damage, entries
    )


def plan_of(
    *statuses: ReplicaStatus,
    gone: tuple[int, ...] = (),
    without: tuple[int, ...] = (),
    untold: tuple[int, ...] = (),
    moved: tuple[int, ...] = ALL,
    brokers: tuple[int, ...] = ALL,
    choice: int = 0,
) -> Plan:
    """Return the plan for a partition created on nodes 1 to 3 and then assigned to `moved`.

    `gone` are nodes whose disks were replaced; they, `without` and `untold` answer, and have no replica."""

    def now(node: int) -> ReplicaId:
        return replica(node, 100 + node if node in gone else 0)

    rows: dict[NodeId, ReplicaStatus | AbsentReplica] = {
        NodeId(node): AbsentReplica(now(node), node not in untold) for node in (*gone, *without, *untold)
    }
    rows |= {each.replica.node_id: each for each in statuses}
    retired = {UUID(int=node) for node in gone}
    created, assigned = tuple(map(replica, ALL)), tuple(map(now, moved))
    places = KnownPlaces(created, assigned, tuple(map(now, sorted({*brokers, *moved}))), retired)
    return make_plan(rows, places, NodeId(choice) if choice else None)


def refusal_of(plan: Plan) -> str:
    assert plan.refusal is not None
    assert plan.survivor is None
    return plan.refusal


def survivor_of(plan: Plan) -> int:
    assert plan.survivor is not None, plan.refusal
    assert {plan.survivor, *plan.giving_up} == {plan.survivor, *plan.giving_up}
    return plan.survivor.replica.node_id


def test_a_partition_with_a_leader_is_refused() -> None:
    assert "node 2 leads it" in refusal_of(plan_of(make_status(1), make_status(2, leads=True), make_status(3)))


def test_a_partition_that_can_elect_a_leader_is_refused() -> None:
    """A damaged voter votes too, and an intact one can be a candidate."""
    assert "node 1 is sound" in refusal_of(plan_of(make_status(1), make_status(2, lost=(5,))))
    assert "will lead by itself" in refusal_of(plan_of(make_status(1), make_status(2), gone=(3,)))


def test_a_replica_that_does_not_answer_may_have_missing_entries() -> None:
    said = refusal_of(plan_of(make_status(1, lost=(5,)), make_status(2, lost=(5,))))
    assert "node 3 does not answer" in said
    assert str(UUID(int=3)) in said
    assert "empty data directory" in said


def test_replicas_damaged_at_the_same_offset_lose_it() -> None:
    plan = plan_of(*(make_status(node, lost=(5,)) for node in ALL))
    assert survivor_of(plan) == 1
    assert [each.replica.node_id for each in plan.giving_up] == [2, 3]
    assert plan.loss == ("offsets 5 to 5",)


def test_the_freshest_and_least_damaged_replica_survives() -> None:
    assert (
        survivor_of(
            plan_of(make_status(1, lost=(5,)), make_status(2, entry(11), lost=(5, 6)), make_status(3, lost=(5,)))
        )
        == 2
    )
    assert (
        survivor_of(plan_of(make_status(1, entry(99), lost=(5,)), make_status(2, entry(3, 2), lost=(5,)), gone=(3,)))
        == 2
    )
    assert (
        survivor_of(plan_of(make_status(1, lost=(5, 6)), make_status(2, lost=(5,)), make_status(3, lost=(5, 7)))) == 2
    )


def test_an_intact_replica_that_is_behind_cannot_win_against_a_damaged_one() -> None:
    """The damaged replica does not campaign, and grants no vote to a log behind its own."""
    plan = plan_of(make_status(1, entry(8)), make_status(2, entry(10), lost=(9,)), gone=(3,))
    assert survivor_of(plan) == 2
    chosen = plan_of(make_status(1, entry(8)), make_status(2, entry(10), lost=(9,)), gone=(3,), choice=1)
    assert survivor_of(chosen) == 1
    assert any("after offset 7" in each for each in chosen.loss)


def test_the_replica_left_by_a_majority_of_replaced_disks_survives() -> None:
    plan = plan_of(make_status(1), gone=(2, 3))
    assert survivor_of(plan) == 1
    assert plan.giving_up == ()
    assert [each.node_id for each in plan.gone] == [2, 3]
    assert "from offset 10 on" in plan.loss[0]
    assert "nobody who is left knows them" in plan.loss[0]


def test_a_new_disk_that_does_not_answer_may_be_a_voter_already() -> None:
    rows: dict[NodeId, ReplicaStatus | AbsentReplica] = {
        NodeId(1): make_status(1, lost=(5,)),
        NodeId(2): make_status(2, lost=(5,)),
    }
    assigned = (replica(1), replica(2), replica(3, 103))
    plan = make_plan(rows, KnownPlaces(tuple(map(replica, ALL)), assigned, assigned, {UUID(int=3)}))
    assert "node 3 does not answer" in refusal_of(plan)
    rows[NodeId(3)] = AbsentReplica(replica(3, 104), is_renounced=True)
    plan = make_plan(rows, KnownPlaces(tuple(map(replica, ALL)), assigned, assigned, {UUID(int=3)}))
    assert "node 3 answers with another disk" in refusal_of(plan)


def test_a_broker_without_its_first_replica_must_not_create_it() -> None:
    """Two such replicas with the voters of the creation would elect a leader beside the survivor."""
    plan = plan_of(make_status(1), untold=(2, 3))
    assert survivor_of(plan) == 1
    assert plan.renouncing == (replica(2), replica(3))
    assert plan_of(make_status(1, lost=(5,)), untold=(2,), without=(3,)).renouncing == (replica(2),)
    assert plan_of(make_status(1), gone=(2, 3)).renouncing == ()
    assert "node 3 does not answer" in refusal_of(plan_of(make_status(1), untold=(2,)))


def empty_status(node: int, disk: int = 0) -> ReplicaStatus:
    return replace(make_status(node, entry(0, 0), voters=()), replica=replica(node, disk))


def test_an_empty_replica_does_not_survive_while_another_may_have_records() -> None:
    """The partition was moved away from nodes that are down: empty replicas have no configuration."""
    said = refusal_of(plan_of(empty_status(4), empty_status(5), moved=(4, 5)))
    for node in ALL:
        assert f"node {node} does not answer" in said
        assert f"disk {UUID(int=node)} of node {node}" in said
    assert "node 6 does not answer" in refusal_of(plan_of(empty_status(4), gone=ALL, moved=(4,), brokers=(1, 2, 3, 6)))
    assert survivor_of(plan_of(empty_status(4), gone=ALL, moved=(4,))) == 4
    assert survivor_of(plan_of(empty_status(4), gone=(1, 2), without=(3,), moved=(4,))) == 4


def test_a_stale_replica_of_a_moved_partition_may_have_only_old_voters() -> None:
    stale, later = make_status(1, lost=(5,)), {"without": (2, 3), "moved": (7, 8, 9)}
    said = refusal_of(plan_of(stale, empty_status(7), empty_status(8), empty_status(9), brokers=(1, 2, 3, 4), **later))  # type: ignore[arg-type]
    assert "node 4 does not answer" in said
    assert "every broker has to answer" in said
    plan = plan_of(stale, empty_status(7), empty_status(8), empty_status(9), **later)  # type: ignore[arg-type]
    assert survivor_of(plan) == 1


def test_a_partition_without_any_record_left_can_restart() -> None:
    plan = plan_of(empty_status(2, 102), gone=(1, 2, 3))
    assert survivor_of(plan) == 2
    assert "everything" in plan.loss[0]


def test_a_replica_emptied_by_an_earlier_recovery_does_not_prevent_the_next() -> None:
    assert survivor_of(plan_of(make_status(1, lost=(5,)), make_status(2, lost=(5,)), empty_status(3))) == 1
    assert survivor_of(plan_of(make_status(1, lost=(5,)), make_status(2, lost=(5,)), without=(3,))) == 1


def test_voters_of_a_joint_configuration_count_too() -> None:
    joint = [make_status(node, voters=(1, 2, 4), outgoing=(1, 2, 3), lost=(5,)) for node in (1, 2)]
    assert "node 4 does not answer" in refusal_of(plan_of(*joint, gone=(3,)))


def test_a_lost_end_of_the_log_is_reported() -> None:
    plan = plan_of(*(make_status(node, floor=entry(12)) for node in ALL))
    assert survivor_of(plan) == 1
    assert any("an entry 12 of term 1" in each for each in plan.loss)


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (plan_of(make_status(1, lost=None), make_status(2, lost=None), gone=(3,)), "still looks"),
        (plan_of(make_status(1, lost=(5,)), make_status(2, lost=(5,)), gone=(3,), choice=3), "node 3 has no replica"),
        (plan_of(gone=(1, 2, 3)), "not even an empty one"),
    ],
)
def test_each_refusal_has_its_reason(plan: Plan, words: str) -> None:
    assert words in refusal_of(plan)


def test_a_status_survives_packing() -> None:
    assert unpack_status(pack_status(AbsentReplica(replica(1), is_renounced=True))) == AbsentReplica(
        replica(1), is_renounced=True
    )
    for each in (
        make_status(1, lost=(3, 4)),
        make_status(2, lost=None),
        make_status(3, floor=entry(11), outgoing=(1,)),
    ):
        assert unpack_status(pack_status(each)) == each


@pytest.mark.parametrize("length", range(12))
def test_a_truncated_status_is_an_error(length: int) -> None:
    """Otherwise a replica with records would count as an absent one."""
    with pytest.raises(OutcomeUnknown):
        unpack_status(pack_status(make_status(1))[:length])
