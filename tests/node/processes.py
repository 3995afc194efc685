"""Nodes as real processes (`runner`), which a test starts, kills, pauses and sends commands to."""

import asyncio
import json
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from raftlog.records import read_header, read_records
from raftlog.testing import process_start
from tests.forked.client import ForkedProcess
from tests.node.nodes import GROUP

NODES = (1, 2, 3)
ANSWER_S = 20.0
_LINE_BYTES_MAX = 1 << 24


class NodeProcess:
    """Process of one node; `acked` has the values that it acknowledged, by offset."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.acked: dict[int, str] = {}
        self._process: ForkedProcess
        self._output: asyncio.StreamReader
        self._pipe: asyncio.ReadTransport
        self._answers: asyncio.Queue[dict[str, Any]]
        self._reading: asyncio.Task[None]
        self._new_ack = asyncio.Event()

    async def spawn(self) -> None:
        self._process = process_start.start(
            [sys.executable, "-m", "tests.node.runner"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._output = asyncio.StreamReader(_LINE_BYTES_MAX)
        self._pipe, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(self._output), self._process.stdout
        )
        self._answers = asyncio.Queue()
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        while line := await self._output.readline():
            if not line.endswith(b"\n"):
                return  # the process was killed during the write
            said = json.loads(line)
            if "acked" in said:
                offset, value = said["acked"]
                assert self.acked.get(offset, value) == value, f"offset {offset} was given out twice"
                self.acked[offset] = value
                self._new_ack.set()
            else:
                self._answers.put_nowait(said["answer"])

    async def send_command(self, **command: Any) -> dict[str, Any]:
        """Send one command and return its answer; an error in the answer fails the test."""
        answer = await self.request(**command)
        assert "error" not in answer, answer["error"]
        return answer

    async def request(self, **command: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command).encode() + b"\n")
        self._process.stdin.flush()
        return await asyncio.wait_for(self._answers.get(), ANSWER_S)

    async def wait_for_acks(self, count: int) -> None:
        """Wait until this process acknowledged `count` more values."""
        wanted = len(self.acked) + count
        async with asyncio.timeout(ANSWER_S):
            while len(self.acked) < wanted:
                self._new_ack.clear()
                await self._new_ack.wait()

    async def wait_for_refusal(self) -> str:
        """Wait until all other nodes refuse this process; return the message of one of them."""
        return str((await self.send_command(refused=0))["refusals"][0])

    def pause(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    async def kill(self) -> None:
        """Send SIGKILL, and read the remaining output."""
        self._process.kill()
        await asyncio.to_thread(self._process.wait)
        await self._reading
        self._pipe.close()
        assert self._process.stdin is not None
        self._process.stdin.close()


class Processes:
    """Processes 1 to 3, and one Raft group on all of them."""

    def __init__(self, directory: Path, **options: Any) -> None:
        self.directory = directory
        self.options = options
        self.running: dict[int, NodeProcess] = {}
        self.addresses: dict[int, list[Any]] = {}
        self.disks: dict[int, str] = {}
        self.acked: dict[int, str] = {}
        """Values acknowledged by processes that have ended."""

    async def start(self, *numbers: int) -> None:
        await asyncio.gather(*map(self._open, numbers or NODES))
        await self.set_peers_of_all()

    async def _open(self, number: int) -> None:
        process = NodeProcess(number)
        await process.spawn()
        self.running[number] = process
        at = self.addresses.get(number)
        port = {"rpc_port": at[1]} if at else {}
        peers = {other: self.addresses.get(other, ["127.0.0.1", 1]) for other in NODES if other != number}
        opened = await process.send_command(
            open={"directory": str(self.directory), "node_id": number, "peers": peers, **port, **self.options}
        )
        self.addresses[number] = opened["address"]
        self.disks.setdefault(number, opened["disk"])

    async def set_peers_of_all(self) -> None:
        for number, process in self.running.items():
            peers = {other: at for other, at in self.addresses.items() if other != number}
            await process.send_command(peers=peers, disks={other: self.disks[other] for other in peers})

    async def create(self, groups: Iterable[int] = (GROUP.int,)) -> None:
        members = [[number, disk] for number, disk in self.disks.items()]
        created = [process.send_command(create=list(groups), members=members) for process in self.running.values()]
        await asyncio.gather(*created)

    async def load(self, writers: int, *numbers: int) -> None:
        for number in numbers or tuple(self.running):
            await self.running[number].send_command(load=writers)

    async def kill(self, number: int) -> None:
        process = self.running.pop(number)
        await process.kill()
        self._collect_acks(process)

    async def wait_for_next_leader(self, count: int = 1) -> NodeProcess:
        """Return the first process that acknowledges `count` values from now on."""
        waits = {asyncio.ensure_future(each.wait_for_acks(count)): each for each in self.running.values()}
        done, left = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in left:
            wait.cancel()
        first = done.pop()
        first.result()
        return waits[first]

    async def finish(self) -> None:
        """Stop the load, wait until all replicas have the same end, and kill the processes."""
        for process in self.running.values():
            await process.send_command(quiet=0)
        ends = [0, 1]
        while len(set(ends)) > 1:
            settled = [process.send_command(settle=max(ends)) for process in self.running.values()]
            ends = [end["last"] for end in await asyncio.gather(*settled)]
        for number in list(self.running):
            await self.kill(number)

    def _collect_acks(self, process: NodeProcess) -> None:
        for offset, value in process.acked.items():
            assert self.acked.get(offset, value) == value, f"offset {offset}: {value} and {self.acked[offset]}"
            self.acked[offset] = value

    # contents of the disks

    def log_of(self, number: int, group: uuid.UUID = GROUP) -> dict[str, bytes]:
        path = self.directory / str(number) / str(group)
        return {file.name: file.read_bytes() for file in sorted(path.glob("*.log"))}

    def check(self) -> None:
        """Check that all replicas' files are equal, and every acknowledged value is at its offset, once."""
        logs = [self.log_of(number) for number in NODES]
        assert [list(log) for log in logs] == [list(logs[0])] * 3
        for name, content in logs[0].items():
            assert all(log[name] == content for log in logs), f"{name} differs between the replicas"
        stored = values_by_offset(logs[0])
        for offset, value in self.acked.items():
            assert stored.get(offset) == value, f"{value} was acknowledged at {offset}, where {stored.get(offset)} is"
        assert len(set(stored.values())) == len(stored), "a value is stored twice"

    def wipe(self, number: int) -> None:
        shutil.rmtree(self.directory / str(number))


def values_by_offset(log: dict[str, bytes]) -> dict[int, str]:
    found: dict[int, str] = {}
    for content in log.values():
        position = 0
        while position < len(content):
            header = read_header(content[position:])
            batch = content[position : position + header.size]
            if header.last_offset_delta >= 0:
                found |= {record.offset: (record.value or b"").decode() for record in read_records(batch)}
            position += header.size
    return found


@asynccontextmanager
async def run_processes(directory: Path, **options: Any) -> AsyncIterator[Processes]:
    """Start and connect processes; at the end kill those that still run."""
    cluster = Processes(directory, **options)
    try:
        await cluster.start()
        yield cluster
    finally:
        for process in cluster.running.values():
            await process.kill()
