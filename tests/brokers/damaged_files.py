"""Data directories of three stopped brokers, and damage to any file of one of them."""

import asyncio
import json
import shutil
import struct
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final
from uuid import UUID

from crc32c import crc32c

from raftlog.cli.log.compare import compare_logs
from raftlog.errors import CorruptBatch, RaftlogError, Unavailable
from raftlog.partitions.broker import Broker
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.settings import BrokerSettings
from raftlog.raft import RaftSettings
from raftlog.records import NewRecord, read_records
from raftlog.runtime.config import DriverConfig
from raftlog.runtime.journal.blocks import BLOCK_HEADER, BLOCK_MAGIC, BLOCK_SIZE, CHECKED_FROM, checksum_seed
from raftlog.runtime.journal.config import JournalConfig
from raftlog.storage.json_file import encode_json
from raftlog.storage.real_disk import RealDisk
from raftlog.testing.ports import reserve_port
from raftlog.types import Index
from tests.cluster_secret import SECRET
from tests.waiting import until, until_async

DRIVER: Final = DriverConfig(
    tick_ms=20,
    checkpoint_interval_ms=1_000,
    raft=RaftSettings(election_ticks_min=9, quiesce_after_ticks=28),
    journal=JournalConfig(file_bytes=1 << 20, write_bytes_max=1 << 18, reserve_bytes=1 << 16, checkpoint_bytes=1 << 16),
)
TOPIC: Final = "t"
RECORDS: Final = 60
SEGMENT_BYTES: Final = 1 << 15
DISK: Final = RealDisk(lambda job: job())
JOURNAL_END: Final = 5 * BLOCK_SIZE
"""Distance from the end that skips the newest frames, which alone could pass for torn."""
VERSION_AT: Final = BLOCK_HEADER.size - 6


class Directories:
    """Data directories of brokers 1, 2, …, below one directory, with the RPC ports that they were started with."""

    def __init__(self, root: Path, ports: list[int]) -> None:
        self.root, self.ports = root, ports
        self.running: dict[int, Broker] = {}

    def __getitem__(self, number: int) -> Path:
        return self.root / str(number)

    def copy_to(self, root: Path) -> "Directories":
        """Copy the directories below `root`; no broker may run on them."""
        shutil.copytree(self.root, root)
        return Directories(root, self.ports)

    async def open(self, number: int) -> Broker:
        alone = len(self.ports) == 1
        addresses = [("127.0.0.1", port) for port in self.ports]
        settings = BrokerSettings(
            data_dir=str(self[number]),
            node_id=number,
            rpc=None if alone else addresses[number - 1],
            seeds=() if alone else tuple(addresses),
            secret=SECRET,
            driver=DRIVER,
        )
        self.running[number] = broker = await Broker.open(settings)
        return broker

    async def close(self, *numbers: int) -> None:
        for number in numbers or tuple(self.running):
            await self.running.pop(number).close()


def hold_ports(stack: ExitStack, count: int) -> list[int]:
    return [stack.enter_context(reserve_port()).getsockname()[1] for _ in range(count)]


def make_values() -> list[bytes]:
    return [(b"%d;" % number) * 1_000 for number in range(RECORDS)]


async def make_template(directories: Directories) -> None:
    """Create a cluster and store records in several segments, most of them below a checkpoint of the journal."""
    numbers = range(1, len(directories.ports) + 1)
    brokers = [await directories.open(number) for number in numbers]
    await asyncio.gather(*(broker.start(f"127.0.0.1:{number}") for number, broker in enumerate(brokers, 1)))
    config = {"segment.bytes": str(SEGMENT_BYTES)}
    await brokers[0].create_topic(TOPIC, 1, config=config, deadline=deadline_in(20_000))
    await produce(brokers[0], make_values()[:-2])
    await until_async(lambda: _is_healthy(brokers[0]))
    for broker in brokers:
        checkpoints = broker.node.driver.persister.checkpoints
        number = checkpoints.request()
        await until(lambda checkpoints=checkpoints, number=number: checkpoints.completed >= number)
    await produce(brokers[0], make_values()[-2:])
    await until_async(lambda: _is_healthy(brokers[0]))
    await directories.close()


async def _is_healthy(broker: Broker) -> bool:
    try:
        return (await broker.health(deadline=deadline_in(2_000))).is_healthy
    except Unavailable:
        return False


async def check_healed(directories: Directories, number: int) -> None:
    """Wait until the cluster is healthy again; then check that all replicas hold the same, complete records."""
    brokers = directories.running
    await until_async(lambda: _is_healthy(brokers[number]))
    await until(lambda: is_sound(brokers[number]))
    found, error = await read_all(brokers[number])
    assert error is None, repr(error)
    assert found == make_values(), f"{len(found)} records"
    await directories.close()
    logs = [str(directories[each] / name) for each in (1, 2, 3) for name in (f"{TOPIC}/0", ".raftlog/controller")]
    compared = compare_logs(DISK, logs)
    assert [(len(each.paths), each.difference) for each in compared] == [(3, None), (3, None)]


def is_sound(broker: Broker) -> bool:
    """Read all committed entries of the broker's replicas; return whether all are intact.

    Damage in entries that are not read is otherwise found only by the scrub, after days."""
    groups = list(broker.node.driver.groups.values())
    for group in groups:
        following = Index(group.log.boundary.index + 1)
        try:
            while following <= group.applied_index:
                following = Index(group.committed_entries(following, 1 << 20)[-1].index + 1)
        except CorruptBatch:
            return False
    return all(group.damage is None and group.core.voting_position is None for group in groups)


async def read_all(broker: Broker, calls_max: int = 100) -> tuple[list[bytes], RaftlogError | None]:
    """Read all values from the beginning; return them and the error that ended the read, or None.

    Each call to a partition without a leader lasts until it times out, hence `calls_max`."""
    found: list[bytes] = []
    try:
        end = (await broker.offsets(TOPIC, 0, deadline=deadline_in(2_000))).end
        while len(found) < end and calls_max > 0:
            calls_max -= 1
            fetched = await broker.fetch(TOPIC, 0, len(found), max_bytes=1 << 22, deadline=deadline_in(300))
            if not fetched.batches:
                break
            found += [record.value or b"" for batch in fetched.batches for record in read_records(batch)]
    except RaftlogError as error:
        return found, error
    return found, None


async def produce(broker: Broker, wanted: list[bytes]) -> None:
    for first in range(0, len(wanted), 2):
        records = [NewRecord(value) for value in wanted[first : first + 2]]
        results = await broker.produce_records(TOPIC, 0, records, deadline=deadline_in(20_000))
        assert all(result.error is None for result in results), results


# which file


def _newest(directory: Path, suffix: str) -> Path:
    return max(directory.glob(f"*{suffix}"))


def _oldest(directory: Path, suffix: str) -> Path:
    return min(directory.glob(f"*{suffix}"))


def _journal(data_dir: Path, *, is_spare: bool) -> Path:
    files = sorted((data_dir / ".raftlog/journal").rglob("*.journal"))
    found = [file for file in files if any(file.read_bytes()) is not is_spare]
    assert found, f"{files} are all {'used' if not is_spare else 'spare'}"
    return found[-1]


FILES: Final[dict[str, Callable[[Path], Path]]] = {
    "identity": lambda data_dir: data_dir / ".raftlog/identity",
    "bootstrap": lambda data_dir: data_dir / ".raftlog/bootstrap",
    "peers": lambda data_dir: data_dir / ".raftlog/peers",
    "meta": lambda data_dir: data_dir / ".raftlog/meta",
    "lock": lambda data_dir: data_dir / ".raftlog/lock",
    "journal, in use": lambda data_dir: _journal(data_dir, is_spare=False),
    "journal, spare": lambda data_dir: _journal(data_dir, is_spare=True),
    "meta of the controller": lambda data_dir: data_dir / ".raftlog/controller/.raftlog/meta",
    "segment of the controller": lambda data_dir: _newest(data_dir / ".raftlog/controller", ".log"),
    "index of the controller": lambda data_dir: _newest(data_dir / ".raftlog/controller", ".index"),
    "meta of a replica": lambda data_dir: data_dir / TOPIC / "0/.raftlog/meta",
    "closed segment": lambda data_dir: _oldest(data_dir / TOPIC / "0", ".log"),
    "closed index": lambda data_dir: _oldest(data_dir / TOPIC / "0", ".index"),
    "newest segment": lambda data_dir: _newest(data_dir / TOPIC / "0", ".log"),
    "newest index": lambda data_dir: _newest(data_dir / TOPIC / "0", ".index"),
    "time index": lambda data_dir: _oldest(data_dir / TOPIC / "0", ".timeindex"),
}


# what is wrong with it


def flip(file: Path) -> None:
    """Flip a bit in the middle of the used part of a file; of a journal, in its newest blocks."""
    content = bytearray(file.read_bytes())
    used = content.rstrip(b"\0")
    content[len(used) - JOURNAL_END if file.suffix == ".journal" else len(used) // 2] ^= 0x10
    file.write_bytes(content)


def halve(file: Path) -> None:
    """Truncate a file to half of its content without trailing zeros."""
    content = file.read_bytes()
    file.write_bytes(content[: len(content.rstrip(b"\0")) // 2])


def empty(file: Path) -> None:
    file.write_bytes(b"")


def remove(file: Path) -> None:
    file.unlink()


def make_newer(file: Path) -> None:
    """Rewrite a file as a later version of the program could: intact, but unreadable for this version."""
    content = bytearray(file.read_bytes())
    if file.suffix == ".journal":
        seed = checksum_seed(UUID(file.parent.name))
        for at in range(0, len(content), BLOCK_SIZE):
            if content[at : at + 4] == BLOCK_MAGIC:
                struct.pack_into(">H", content, at + VERSION_AT, 2)
                struct.pack_into(">I", content, at + 4, crc32c(content[at + CHECKED_FROM : at + BLOCK_SIZE], seed))
    elif file.suffix == ".log":
        content[16] = 3  # the magic of the first batch
    else:
        fields = json.loads(content)
        del fields["crc32c"]
        content = bytearray(encode_json({**fields, "format": fields["format"] + 1}))
    file.write_bytes(content)


DAMAGES: Final[dict[str, Callable[[Path], None]]] = {
    "a flipped bit": flip,
    "cut in half": halve,
    "empty": empty,
    "missing": remove,
    "of a newer version": make_newer,
}
