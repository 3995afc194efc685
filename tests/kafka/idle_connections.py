"""Program that prints the bytes of memory for each idle connection: `idle_connections.py COUNT DIRECTORY`."""

import asyncio
import os
import resource
import socket
import sys

import uvloop

from raftlog.api.kafka.api import ApiKey
from raftlog.api.kafka.listener import KafkaListener
from raftlog.partitions.broker import Broker
from raftlog.partitions.settings import BrokerSettings
from raftlog.runtime.memory_budget import MemoryBudget
from tests.kafka.harness import make_request
from tests.small_journal import SMALL_JOURNAL


def resident_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def open_connections(count: int, port: int) -> list[socket.socket]:
    """Open connections, each of which has received the answer to one request."""
    loop = asyncio.get_running_loop()
    opened = []
    for _ in range(count):
        client = socket.socket()
        client.setblocking(False)
        await loop.sock_connect(client, ("127.0.0.1", port))
        await loop.sock_sendall(client, make_request(ApiKey.API_VERSIONS, 0))
        assert await loop.sock_recv(client, 4096)
        opened.append(client)
    return opened


async def main(count: int, directory: str) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    broker = await Broker.open(BrokerSettings(data_dir=directory, driver=SMALL_JOURNAL))
    await broker.start("127.0.0.1:1")
    listener = KafkaListener(broker, "127.0.0.1", 0, "", MemoryBudget(1 << 26))
    await listener.start()
    port = int(listener.address.rpartition(":")[2])
    opened = await open_connections(100, port)
    before = resident_bytes()
    opened += await open_connections(count, port)
    print((resident_bytes() - before) // count)
    for client in opened:
        client.close()
    await listener.stop(0.5, 0.0)
    await broker.close()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1]), sys.argv[2]))
