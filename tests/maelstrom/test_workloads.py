"""Every workload on node processes, with lost messages and cuts; checkers decide by the clients' histories."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

import pytest

from jepsen.checkers import check_history
from tests.maelstrom.driver import ErrorAnswer, Network
from tests.maelstrom.loads import Load, Worker, sum_reports
from tests.waiting import until, until_async

CLIENTS = 4


async def _isolate_each_node(load: Load, count: int = 8) -> None:
    """Isolate each node for a while, so each leader too; `count` operations succeed before, during and after."""
    network = load.network
    await _wait_for_successes(load, count)
    for name in network.names:
        network.cut([name])
        await _wait_for_successes(load, count)
        network.heal()
        await _wait_for_successes(load, count)


async def _wait_for_successes(load: Load, count: int) -> None:
    wanted = load.successes + count
    await until(lambda: load.successes >= wanted, lambda: f"{load.successes} of {wanted}: {load.history[-20:]}")


async def _check(load: Load, work: Callable[[Worker], Awaitable[None]]) -> None:
    if work is Worker.send_kafka_operation:
        await Worker(load).drain()
    verdict = check_history(load.history)
    assert verdict.is_clean(), verdict
    assert not verdict.undecided


async def test_kafka_under_cuts_and_loss(tmp_path: Path) -> None:
    async with Network(tmp_path, 3, seed=1, loss=0.02) as network:
        load = Load(network, 1, keys=4)
        await load.run(Worker.send_kafka_operation, CLIENTS, _isolate_each_node(load))
        await _check(load, Worker.send_kafka_operation)
        assert all(map(load.count, ("send", "poll", "commit", "committed")))
        assert network.lost > 0


async def test_registers_under_cuts_and_loss(tmp_path: Path) -> None:
    async with Network(tmp_path, 3, seed=2, loss=0.02) as network:
        load = Load(network, 2, keys=4)
        await load.run(Worker.send_register_operation, CLIENTS, _isolate_each_node(load))
        await _check(load, Worker.send_register_operation)
        assert all(map(load.count, ("read", "write", "cas")))
        assert load.count("cas", "fail")
        assert network.lost > 0


@pytest.mark.slow
@pytest.mark.parametrize("work", [Worker.send_kafka_operation, Worker.send_register_operation])
@pytest.mark.parametrize("seed", range(3))
async def test_many_clients_under_random_cuts(
    tmp_path: Path, work: Callable[[Worker], Awaitable[None]], seed: int
) -> None:
    random = Random(seed)
    network = Network(
        tmp_path,
        random.choice((3, 5)),
        *("--tick-ms", str(random.choice((20, 40)))),
        *("--groups", str(random.choice((1, 3, 5)))),
        seed=seed,
        loss=random.choice((0.0, 0.02, 0.1)),
        latency_s=(0.0, random.choice((0.002, 0.02, 0.06))),
    )
    async with network:
        load = Load(network, seed, keys=random.choice((2, 5)))
        await load.run(work, 20, _cut_at_random(load, random))
        await _check(load, work)


async def _cut_at_random(load: Load, random: Random) -> None:
    """Cut links in random ways, each for the time of some operations."""
    for _ in range(12):
        load.network.cut_at_random(random)
        wanted = len(load.history) + random.randrange(20, 120)
        await until(lambda wanted=wanted: len(load.history) >= wanted)
    load.network.heal()
    load.network.loss = 0.0
    await _wait_for_successes(load, 20)


async def test_a_set_keeps_what_was_acknowledged_and_every_node_reads_it(tmp_path: Path) -> None:
    async with Network(tmp_path, 3, seed=5, loss=0.05) as network:
        load = Load(network, 5, keys=1)
        acknowledged: list[str] = []

        errors: set[int] = set()

        async def add_and_read(worker: Worker) -> None:
            element = worker.value()
            try:
                await worker.client.ask(worker.node(), "add", element=element)
                acknowledged.append(element)
                before = set(acknowledged)
                found = (await worker.client.ask(worker.node(), "read"))["value"]
                assert before <= set(found)
                load.successes += 1
            except ErrorAnswer as error:
                errors.add(error.code)

        await load.run(add_and_read, CLIENTS, _isolate_each_node(load, 3))
        assert errors <= {0, 11}
        for name in network.names:
            found = (await network.client().ask_again(name, "read"))["value"]
            assert len(found) == len(set(found))
            assert set(acknowledged) <= set(found)


@pytest.mark.parametrize("topology", ["line", "everybody"])
async def test_a_broadcast_reaches_every_node(tmp_path: Path, topology: str) -> None:
    async with Network(tmp_path, 5, seed=6, loss=0.1) as network:
        client = network.client()
        names = network.names
        neighbours = {name: [each for each in names if each != name] for name in names}
        if topology == "line":
            neighbours = {name: names[max(0, at - 1) : at] + names[at + 1 : at + 2] for at, name in enumerate(names)}
        for name in names:
            await client.ask(name, "topology", topology=neighbours)
        network.cut(names[:2])
        values = [[number, "x"] for number in range(60)]
        for number, value in enumerate(values):
            await client.ask(names[number % len(names)], "broadcast", message=value)
        network.heal()

        async def is_everywhere() -> bool:
            answers = [await client.ask(name, "read") for name in names]
            found = [sorted(answer["messages"]) for answer in answers]
            return all(messages == values for messages in found)

        await until_async(is_everywhere)
        assert set(network.messages) == {"gossip"}, "groups that were not requested"
        reports = await network.stop()
        assert sum_reports(reports) == (
            sum(report["operations_by_workload"]["broadcast"] for report in reports.values()),
            network.messages.total(),
        )


async def test_one_node_alone_serves_every_workload(tmp_path: Path) -> None:
    async with Network(tmp_path, 1, seed=7) as network:
        client = network.client()
        nested = {"a": [1, 1.0, True, None, 10**30, "\ud800é"]}
        assert (await client.ask("n1", "echo", echo=nested))["echo"] == nested
        assert [(await client.ask("n1", "send", key="k", msg=value))["offset"] for value in (nested, 2, 3)] == [0, 1, 2]
        assert (await client.ask("n1", "poll", offsets={"k": 0, "none": 0}))["msgs"] == {
            "k": [[0, nested], [1, 2], [2, 3]]
        }
        assert (await client.ask("n1", "poll", offsets={"k": 3}))["msgs"] == {}
        await client.ask("n1", "commit_offsets", offsets={"k": 2})
        await client.ask("n1", "commit_offsets", offsets={"k": 1})
        answer = await client.ask("n1", "list_committed_offsets", keys=["k", "none"])
        assert answer["offsets"] == {"k": 2}
        await client.ask("n1", "write", key=[1], value=1)
        with pytest.raises(ErrorAnswer, match="22"):
            await client.ask("n1", "cas", key=[1], to=3, **{"from": True})
        await client.ask("n1", "cas", key=[1], to=nested, **{"from": 1})
        assert (await client.ask("n1", "read", key=[1]))["value"] == nested
        await client.ask("n1", "add", element=nested)
        await client.ask("n1", "add", element=nested)
        assert (await client.ask("n1", "read"))["value"] == [nested]
        reports = await network.stop()
        assert sum_reports(reports) == (16, 0)
