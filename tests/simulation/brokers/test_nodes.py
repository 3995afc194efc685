"""Three whole nodes in virtual time: real transport and disk format, on simulated connections and disks."""

from collections.abc import Iterator

import pytest

from raftlog.errors import RaftlogError
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.node import Node, Request
from raftlog.runtime.rpc.calls import Answer
from raftlog.runtime.rpc.errors import ConnectionLost, NoAnswer, NotConnected
from raftlog.types import NodeId
from tests.simulation.brokers.nodes import Rig

OTHERS = {1: (2, 3), 2: (1, 3), 3: (1, 2)}


@pytest.fixture
def rig() -> Iterator[Rig]:
    rig = Rig()
    yield rig
    rig.close()


def test_writes_continue_after_the_leader_crashes(rig: Rig) -> None:
    rig.start()
    rig.create()
    rig.run_until(rig.leader)
    leader = rig.leader()
    rig.write(leader, b"one")
    rig.machines[leader].crash()
    rig.run_until(rig.leader)
    rig.write(rig.leader(), b"two")
    rig.start(leader)
    rig.run_until(lambda: all(rig.group(number) and rig.values(number) == [b"one", b"two"] for number in rig.machines))
    assert rig.node(leader).identity.boot_epoch == 2


def test_a_power_loss_of_all_nodes_loses_no_acknowledged_value(rig: Rig) -> None:
    rig.start()
    rig.create()
    rig.run_until(rig.leader)
    for number in range(20):
        rig.write(rig.leader(), b"%d" % number)
    for machine in rig.machines.values():
        machine.lose_power()
    rig.start()
    rig.run_until(rig.leader)
    assert rig.values(rig.leader()) == [b"%d" % number for number in range(20)]


def test_an_isolated_leader_is_replaced_also_after_a_one_way_cut(rig: Rig) -> None:
    rig.start()
    rig.create()
    rig.run_until(rig.leader)
    leader = rig.leader()
    for other in OTHERS[leader]:
        rig.network.cut(rig.machines[leader].node, rig.machines[other].node)
    rig.run_until(lambda: any(rig.group(other).core.role.value == "leader" for other in OTHERS[leader]))  # type: ignore[union-attr]
    rig.network.heal()
    rig.run_until(lambda: len({(group := rig.group(number)) and group.core.leader for number in rig.machines}) == 1)


def test_an_old_copy_of_a_disk_is_refused(rig: Rig) -> None:
    rig.start()
    rig.create()
    rig.run_until(rig.leader)
    victim = next(number for number in rig.machines if number != rig.leader())
    rig.machines[victim].crash()
    old = rig.machines[victim].disk.image()
    rig.start(victim)
    rig.run_until(lambda: all(peer.raft.is_connected for peer in rig.node(victim).transport.peers()))
    rig.machines[victim].crash()
    rig.machines[victim].disk.restore_image(old)
    rig.machines[victim].start()
    rig.run_until(
        lambda: (
            rig.machines[victim].end
            or (rig.machines[victim].service and rig.refusals(victim).count("it is an old copy") == 2)
            or (rig.machines[victim].service and rig.refusals(victim).count("runs in two processes") == 2)
        )
    )


def test_requests_have_their_sender_and_payload(rig: Rig) -> None:
    rig.start()
    rig.run_until(lambda: all(peer.raft.is_connected for peer in rig.node(1).transport.peers()))
    ended: list[object] = []

    async def double(request: Request) -> Answer:
        return Answer([request.node, request.header], (*request.payload, *request.payload))

    async def never(request: Request) -> Answer:
        await rig.node(2).ended
        raise AssertionError

    async def ask(node: Node, name: str, milliseconds: float) -> None:
        try:
            answer = await node.ask(NodeId(2), name, {"a": 1}, [b"xy"], deadline_in(milliseconds))
            ended.append([answer.value, *map(bytes, answer.payload)])
        except RaftlogError as error:
            ended.append(type(error))

    rig.node(2).on_request("double", double)
    rig.node(2).on_request("never", never)

    def asked(name: str, milliseconds: float) -> None:
        rig.machines[1].spawn(lambda node: ask(node, name, milliseconds), name)

    asked("double", 1_000)
    rig.run_until(lambda: ended == [[[1, {"a": 1}], b"xy", b"xy"]])
    ended.clear()
    asked("never", 300)
    rig.run_until(lambda: ended == [NoAnswer])
    asked("never", 20_000)
    rig.loop.run_for(0.2)
    rig.machines[2].crash()
    rig.run_until(lambda: ended == [NoAnswer, ConnectionLost])
    asked("double", 1_000)
    rig.run_until(lambda: ended == [NoAnswer, ConnectionLost, NotConnected])


def test_a_node_stops_after_a_failed_sync_and_can_restart(rig: Rig) -> None:
    rig.start()
    rig.create()
    rig.run_until(rig.leader)
    leader = rig.leader()
    rig.machines[leader].disk.fail_sync()
    rig.run_until(lambda: rig.machines[leader].end is not None)
    assert "SyncFailed" in str(rig.machines[leader].end)
    rig.start(leader)
    rig.run_until(rig.leader)


def test_a_paused_leader_steps_down(rig: Rig) -> None:
    rig.start()
    rig.create()
    rig.run_until(rig.leader)
    leader = rig.leader()
    rig.machines[leader].node.pause()
    rig.run_until(lambda: any(rig.group(other).core.role.value == "leader" for other in OTHERS[leader]))  # type: ignore[union-attr]
    rig.machines[leader].node.resume()
    rig.run_until(lambda: len({(group := rig.group(number)) and group.core.leader for number in rig.machines}) == 1)


def test_the_same_seed_gives_the_same_trace() -> None:
    def digest() -> str:
        """Return the digest of the trace of one run with a crash."""
        rig = Rig(seed=5)
        rig.start()
        rig.create()
        rig.run_until(rig.leader)
        rig.write(rig.leader(), b"one")
        rig.machines[rig.leader()].crash()
        rig.loop.run_for(5)
        rig.close()
        return rig.loop.trace.digest()

    assert digest() == digest()
