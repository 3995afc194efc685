"""Damage to a broker's files: flipped, zeroed and truncated bytes."""

import os
from pathlib import Path
from typing import NamedTuple

from raftlog.records import BatchHeader, split_batches
from raftlog.testing import Cluster, ClusterNode
from tests.forked.commands import run_raftlog
from tests.waiting import block_until

BLOCK = 4096


class StoredBatch(NamedTuple):
    """Batch in a segment file."""

    file: Path
    position: int
    size: int
    header: BatchHeader


def partition_path(node: ClusterNode, topic: str, partition: int = 0) -> Path:
    return node.data_dir / topic / str(partition)


def list_segments(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.log"))


def list_batches(directory: Path) -> list[StoredBatch]:
    """Return all batches of a partition as they are in the files now."""
    found = []
    for file in list_segments(directory):
        position = 0
        content = file.read_bytes()
        for header, batch in split_batches(content):
            found.append(StoredBatch(file, position, len(batch), header))
            position += len(batch)
    return found


def batch_at(directory: Path, offset: int) -> StoredBatch:
    """Return the batch that holds the record at this offset."""
    return next(each for each in list_batches(directory) if each.header.base_offset <= offset < each.header.next_offset)


def flip(file: Path, position: int, count: int = 1) -> None:
    """Flip a bit in each of `count` bytes; a negative `position` counts from the end."""
    with file.open("r+b", buffering=0) as opened:
        at = position if position >= 0 else opened.seek(0, os.SEEK_END) + position
        before = os.pread(opened.fileno(), count, at)
        assert len(before) == count, f"{file} has no {count} bytes at {at}"
        os.pwrite(opened.fileno(), bytes(byte ^ 0x10 for byte in before), at)


def wait_for_words(node: ClusterNode, *words: str, since: int = 0) -> str:
    """Wait until the broker has logged a line with all of these words; return its log from `since` on."""

    def find() -> str:
        logged = node.log_text()[since:]
        return logged if any(all(word in line for word in words) for line in logged.splitlines()) else ""

    return block_until(find, lambda: f"{words} in the log of {node}: {node.log_text()[since:][-4000:]}")


def stop_and_compare(cluster: Cluster) -> None:
    """Stop all brokers; check that every file is valid and that the replicas of each partition are equal."""
    for node in cluster.nodes.values():
        node.stop()
    directories = [str(node.data_dir) for node in cluster.nodes.values()]
    done = run_raftlog("log", "verify", "--compare", *directories)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"


def damage_journal(node: ClusterNode) -> Path:
    """Flip a bit in every written block except the newest ones, which could pass for torn; return the file."""
    file = max((node.data_dir / ".raftlog" / "journal").rglob("*.journal"), key=lambda each: each.stat().st_mtime_ns)
    content = file.read_bytes()
    written = [at for at in range(0, len(content), BLOCK) if any(content[at : at + BLOCK])]
    assert len(written) > 10, f"{file} holds {len(written)} blocks"
    for at in written[1:-5]:
        flip(file, at + 100)
    return file
