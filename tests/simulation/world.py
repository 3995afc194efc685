"""Small world with many events from one seed, which prints the digest of its trace; run under several hash seeds.

With `--by-hash` one choice depends on the hash of a string: the error that the digest has to show.
"""

import asyncio
import sys
from contextlib import suppress
from pathlib import Path
from random import Random

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

from jepsen.simulation import LinkConditions, Node, NodeClock, SimulatedNetwork, Stream, VirtualLoop
from jepsen.simulation.network.shapes import bridge, halves, majorities_ring

WILD = LinkConditions(loss=0.1, duplicate=0.1, reorder=0.2, bytes_per_s=1_000_000)


class World:
    """Five nodes that gossip by datagrams and echo over streams, under all kinds of faults."""

    def __init__(self, seed: int, *, by_hash: bool = False) -> None:
        self.by_hash = by_hash
        self.random = Random(seed)
        self.loop = VirtualLoop()
        self.network = SimulatedNetwork(self.loop, Random(self.random.random()), WILD)
        self.heard = 0
        for number in range(5):
            clock = NodeClock(offset_ns=self.random.randrange(10**12), drift_ppm=self.random.randint(-500, 500))
            node = self.loop.add_node(f"n{number}", clock)
            self.network.attach(node)
            self.start(node)

    def start(self, node: Node) -> None:
        process = node.start()
        self.network.bind(process, "gossip", self.hear)
        self.network.listen(process, "echo", lambda stream: process.spawn(self.echo(stream)) and None)
        process.spawn(self.gossip(node, Random(self.random.random())))
        process.spawn(self.talk(node, Random(self.random.random())))

    def hear(self, source: Node, message: object) -> None:
        self.heard += 1

    async def gossip(self, node: Node, random: Random) -> None:
        while True:
            await asyncio.sleep(random.uniform(0.01, 0.1))
            target = random.choice(self.loop.nodes)
            if self.by_hash:
                target = min(self.loop.nodes, key=lambda node: hash(node.name))
            self.network.send(node.running_process(), target, "gossip", random.randbytes(50))

    async def echo(self, stream: Stream) -> None:
        with suppress(ConnectionError, EOFError):
            while True:
                stream.send(await stream.receive())

    async def talk(self, node: Node, random: Random) -> None:
        """Connect to random nodes, and check that each echoes what it received."""
        while True:
            with suppress(OSError, EOFError):
                stream = await self.network.connect(node.running_process(), random.choice(self.loop.nodes), "echo")
                async with asyncio.TaskGroup() as group:
                    for number in range(random.randint(1, 5)):
                        group.create_task(asyncio.sleep(random.uniform(0, 0.1), number))
                for _ in range(random.randint(1, 20)):
                    stream.send(message := random.randbytes(random.randint(1, 5000)))
                    assert await stream.receive() == message
                stream.close()
            await asyncio.sleep(0.05)

    def fault(self) -> None:
        """Inject one random fault, or repair everything."""
        node = self.random.choice(self.loop.nodes)
        numbers = range(5)
        match self.random.randrange(7):
            case 0 if node.is_up:
                node.crash()
            case 1 if node.is_up and node.process in self.running():
                node.pause()
            case 2:
                self.network.impose(halves(numbers, self.random))
            case 3:
                self.network.impose(bridge(numbers, self.random))
            case 4:
                self.network.impose(majorities_ring(numbers, self.random))
            case 5:
                self.network.reset_streams(node, self.random.choice(self.loop.nodes))
            case _:
                self.repair()

    def running(self) -> list[object]:
        return [node.process for node in self.loop.nodes if node.process and node.process.state.name == "RUNNING"]

    def repair(self) -> None:
        self.network.heal()
        for node in self.loop.nodes:
            if node.process is None:
                self.start(node)
            elif node.process not in self.running():
                node.resume()

    def run(self, seconds: int) -> str:
        for second in range(seconds):
            if second % 3 == 2:
                self.repair()
            else:
                self.fault()
            self.loop.run_for(1)
        digest = self.loop.trace.digest()
        self.loop.close()
        return f"{digest} {self.loop.trace.steps} steps {self.heard} heard {sorted(self.network.drop_counts.items())}"


if __name__ == "__main__":
    print(World(int(sys.argv[1]), by_hash="--by-hash" in sys.argv).run(int(sys.argv[2])))
