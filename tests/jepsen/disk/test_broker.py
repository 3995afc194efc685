"""An unmodified broker that loses its power under load keeps what it acknowledged; without its syncs it does not."""

import itertools
import shutil
import threading
from pathlib import Path
from random import Random

import pytest

from jepsen.disk import NodeDisk
from raftlog.testing import BrokerProcess
from raftlog.testing.errors import BrokerFailed
from tests.integration.test_crash import Producer, check, create_topic
from tests.jepsen.disk.programs import node_disk

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")


class Load:
    """Records sent to a broker, and those that it acknowledged, over all its lives."""

    def __init__(self) -> None:
        self.values = itertools.count()
        self.sent: set[int] = set()
        self.acknowledged: dict[tuple[int, int], int] = {}

    def until(self, broker: BrokerProcess, answers: int) -> None:
        """Send until so much was answered, and kill the broker."""
        enough = threading.Semaphore(0)
        producers = [Producer(broker.address, number, self.values, enough) for number in range(4)]
        for producer in producers:
            producer.start()
        for _ in range(answers):
            assert enough.acquire(timeout=30), "the broker stopped answering"
        broker.kill()
        for producer in producers:
            producer.join(30)
            self.sent |= producer.sent
            self.acknowledged |= producer.acknowledged


def broker_on(disk: NodeDisk, directory: Path, method: str = "auto") -> BrokerProcess:
    return BrokerProcess(str(directory / "data"), "--sync-method", method, at_launch=disk.environment)


def start_and_check(broker: BrokerProcess, load: Load) -> None:
    broker.start()
    check(broker.address, load.sent, load.acknowledged)


@pytest.mark.parametrize("method", ["aio", "threads"])
@pytest.mark.parametrize("losses", [2, pytest.param(10, marks=pytest.mark.slow)])
def test_losses_of_power_under_load_lose_nothing_acknowledged(tmp_path: Path, losses: int, method: str) -> None:
    random, load, disk = Random(1), Load(), node_disk(tmp_path)
    with broker_on(disk, tmp_path, method) as broker:
        broker.start()
        create_topic(broker.address)
        dropped = 0
        for _ in range(losses):
            disk.slow_syncs(0.02)  # so that something is always under way
            load.until(broker, random.randrange(20, 150))
            lost = disk.lose(random)
            dropped += lost.pages
            start_and_check(broker, load)
        disk.stall_loop(0.2)
        check(broker.address, load.sent, load.acknowledged)
        assert disk.seen().stalls == 1
        assert disk.seen().stalled_ms == 200
        assert broker.stop() == 0
    assert len(load.acknowledged) > losses * 20
    assert dropped > 0, "the power took something"


def test_a_broker_whose_syncs_are_removed_loses_what_it_acknowledged(tmp_path: Path) -> None:
    load, disk = Load(), node_disk(tmp_path, removes_syncs=True)
    with broker_on(disk, tmp_path) as broker:
        broker.start()
        create_topic(broker.address)
        load.until(broker, 50)
        start_and_check(broker, load)  # a kill alone takes nothing
        broker.kill()
        disk.lose_power(Random(1))
        with pytest.raises((AssertionError, BrokerFailed)):
            start_and_check(broker, load)
