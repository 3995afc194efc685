"""An unmodified broker that loses power under load keeps acknowledged records; without its syncs it loses some."""

import itertools
import shutil
import threading
from pathlib import Path
from random import Random

import pytest

from jepsen.disk import NodeDisk
from raftlog.testing import BrokerProcess
from raftlog.testing.errors import BrokerFailed
from tests.integration.test_crash import Producer, check_stored, create_topic
from tests.jepsen.disk.programs import node_disk

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")


class Load:
    """Records sent to a broker and those that it acknowledged, over all its starts."""

    def __init__(self) -> None:
        self.values = itertools.count()
        self.sent: set[int] = set()
        self.acknowledged: dict[tuple[int, int], int] = {}

    def send_and_kill(self, broker: BrokerProcess, answers: int) -> None:
        """Send until `answers` requests are answered, then kill the broker."""
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


def make_broker(disk: NodeDisk, directory: Path, method: str = "auto") -> BrokerProcess:
    return BrokerProcess(str(directory / "data"), "--sync-method", method, at_launch=disk.environment)


def start_and_check(broker: BrokerProcess, load: Load) -> None:
    broker.start()
    check_stored(broker.address, load.sent, load.acknowledged)


@pytest.mark.parametrize(
    ("losses", "method"),
    [
        (2, "aio"),
        pytest.param(2, "threads", marks=pytest.mark.slow),
        pytest.param(10, "aio", marks=pytest.mark.slow),
        pytest.param(10, "threads", marks=pytest.mark.slow),
    ],
)
def test_a_power_loss_under_load_loses_nothing_acknowledged(tmp_path: Path, losses: int, method: str) -> None:
    random, load, disk = Random(1), Load(), node_disk(tmp_path)
    with make_broker(disk, tmp_path, method) as broker:
        broker.start()
        create_topic(broker.address)
        dropped = 0
        for _ in range(losses):
            disk.slow_syncs(0.02)  # so that something is always under way
            load.send_and_kill(broker, random.randrange(20, 150))
            lost = disk.lose_unsynced(random)
            dropped += lost.pages
            start_and_check(broker, load)
        disk.stall_loop(0.2)
        check_stored(broker.address, load.sent, load.acknowledged)
        assert disk.read_counters().stalls == 1
        assert disk.read_counters().stalled_ms == 200
        assert broker.stop() == 0
    assert len(load.acknowledged) > losses * 20
    assert dropped > 0, "the power took something"


def test_a_broker_without_syncs_loses_acknowledged_records(tmp_path: Path) -> None:
    load, disk = Load(), node_disk(tmp_path, removes_syncs=True)
    with make_broker(disk, tmp_path) as broker:
        broker.start()
        create_topic(broker.address)
        load.send_and_kill(broker, 50)
        start_and_check(broker, load)  # a kill alone takes nothing
        broker.kill()
        disk.lose_power(Random(1))
        with pytest.raises((AssertionError, BrokerFailed)):
            start_and_check(broker, load)
