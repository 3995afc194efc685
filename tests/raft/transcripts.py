"""Scenario transcripts: commands to a cluster and all effects, as text for review.

A file in `scenarios/` is a sequence of blocks: commands, `----`, the expected output, an empty line. Lines that begin
with `#` are comments. After a wanted change `python -m tests.raft.transcripts --rewrite [FILE…]` writes the output
anew; the difference is then read, not trusted. Commands are the methods `do_…` of `Interpreter`.
"""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from raftlog.raft.messages import Message
from raftlog.raft.ready import Accepted, RefusedProposal
from raftlog.raft.settings import RaftSettings
from raftlog.types import Index, NodeId
from tests.raft.cluster import Cluster, replica_id
from tests.raft.describe import describe_core, describe_entry, describe_message

SCENARIOS = Path(__file__).parent / "scenarios"
_SEPARATOR = "----"


class Interpreter:
    """Interpreter of the commands of one scenario."""

    def __init__(self) -> None:
        self.cluster = Cluster([])
        self._told = 0

    def run(self, commands: list[str]) -> str:
        """Run these commands and return their output."""
        output: list[str] = []
        for command in commands:
            name, *words = command.split()
            options = dict(word.split("=", 1) for word in words if "=" in word)
            arguments = [word for word in words if "=" not in word]
            do: Callable[..., Iterator[str]] = getattr(self, f"do_{name.replace('-', '_')}")
            for line in do(*arguments, **options):
                output.extend(self._events())
                output.append(line)
            output.extend(self._events())
        return "\n".join(output) or "ok"

    def _events(self) -> list[str]:
        """Return the role changes of nodes since the last call."""
        events = self.cluster.events[self._told :]
        self._told = len(self.cluster.events)
        return [f"  {event}" for event in events if not event.endswith("started")]

    # the cluster

    def do_nodes(self, *voters: str, learners: str = "", sync: str = "now", **settings: str) -> Iterator[str]:
        """Create a cluster: `nodes 1 2 3 learners=4 sync=later election_ticks_min=10 …`."""
        self.cluster = Cluster(
            _numbers(voters),
            _numbers(learners.split(",")),
            settings=RaftSettings(**{"heartbeat_ticks": 2, **{name: int(value) for name, value in settings.items()}}),  # type: ignore[arg-type]
            syncs_at_once=sync == "now",
        )
        self._told = 0
        yield from ()

    def do_add(self, number: str) -> Iterator[str]:
        """Add a replica without a configuration: `add 4`."""
        self.cluster.add(int(number))
        yield from ()

    def do_crash(self, number: str, kept: str = "0") -> Iterator[str]:
        """Stop a node; `kept` unsynced Readys survive: `crash 1 kept=2`."""
        self.cluster[int(number)].crash(int(kept))
        yield from ()

    def do_start(self, number: str) -> Iterator[str]:
        self.cluster[int(number)].start()
        yield from ()

    def do_damage(self, number: str) -> Iterator[str]:
        """Damage the last entry of a stopped node: `damage 1`."""
        yield f"{number} lost {self.cluster[int(number)].disk.damage_last()}"

    def do_repaired(self, number: str) -> Iterator[str]:
        self.cluster.core(int(number)).lift_quarantine()
        yield from ()

    def do_sync(self, number: str, count: str | None = None) -> Iterator[str]:
        """Complete the sync of the two oldest Readys: `sync 1 2`."""
        self.cluster[int(number)].sync(int(count) if count else None)
        yield from ()

    def do_trim(self, number: str, index: str) -> Iterator[str]:
        self.cluster[int(number)].trim(Index(int(index)))
        yield from ()

    def do_install(self, number: str) -> Iterator[str]:
        yield "installed" if self.cluster[int(number)].install_or_fetch() else "nothing to install"

    def do_process(self, number: str, state: str, *seen_by: str) -> Iterator[str]:
        """End the heartbeats of node 1's process to nodes 2 and 3: `process 1 dead 2 3`."""
        self.cluster.set_heartbeats(alive=state == "alive", nodes=[int(number)], seen_by=_numbers(seen_by) or None)
        yield from ()

    # requests

    def do_campaign(self, number: str) -> Iterator[str]:
        self.cluster.core(int(number)).campaign()
        self.cluster[int(number)].handle_readys()
        yield from ()

    def do_propose(self, number: str, *payloads: str) -> Iterator[str]:
        yield _outcome(self.cluster.propose(int(number), *payloads))

    def do_change(self, number: str, voters: str, learners: str = "", replaces: str | None = None) -> Iterator[str]:
        """Propose a configuration: `change 1 voters=1,2,4 learners=3 replaces=5`."""
        yield _outcome(
            self.cluster.change(
                int(number),
                _numbers(voters.split(",")),
                _numbers(learners.split(",")),
                None if replaces is None else int(replaces),
            )
        )

    def do_read(self, number: str, request: str) -> Iterator[str]:
        refused = self.cluster.core(int(number)).read_index(request)
        self.cluster[int(number)].handle_readys()
        yield _outcome(refused)

    def do_transfer(self, number: str, to: str) -> Iterator[str]:
        refused = self.cluster.core(int(number)).transfer_leadership(replica_id(int(to)))
        self.cluster[int(number)].handle_readys()
        yield _outcome(refused)

    # time and network

    def do_tick(self, count: str, *numbers: str) -> Iterator[str]:
        """Tick node 1 ten times, or all nodes if none is named, without deliveries: `tick 10 1`."""
        for _ in range(int(count)):
            for number in _numbers(numbers) or [me.node_id for me in self.cluster.nodes]:
                if self.cluster[number].is_up:
                    self.cluster.tick_one(number)
        yield from ()

    def do_deliver(self, count: str = "", **which: str) -> Iterator[str]:
        """Deliver the first messages that match, or all without a count: `deliver 2 from=1 to=3 kind=AppendRequest`."""
        waiting = self._matching(which)
        for message in waiting[: int(count) if count else None]:
            yield describe_message(message)
            self.cluster.deliver(_position(self.cluster.network, message))

    def do_drop(self, count: str = "", **which: str) -> Iterator[str]:
        for message in self._matching(which)[: int(count) if count else None]:
            del self.cluster.network[_position(self.cluster.network, message)]
            yield f"lost: {describe_message(message)}"

    def do_duplicate(self, count: str = "", **which: str) -> Iterator[str]:
        for message in self._matching(which)[: int(count) if count else None]:
            self.cluster.network.append(message)
            yield f"twice: {describe_message(message)}"

    def do_reverse(self) -> Iterator[str]:
        """Reverse the order of the messages in flight."""
        self.cluster.network.reverse()
        yield from ()

    def do_stabilise(self, how: str = "") -> Iterator[str]:
        """Deliver, sync and install until nothing is left; `stabilise quietly` does not print the messages."""
        for _ in range(10_000):
            if self.cluster.network:
                if how != "quietly":
                    yield describe_message(self.cluster.network[0])
                self.cluster.deliver()
            elif any(node.is_up and node.held for node in self.cluster.nodes.values()):
                for node in self.cluster.nodes.values():
                    node.sync()
            elif not any(node.offer for node in self.cluster.nodes.values()):
                return
            else:
                for number, node in self.cluster.nodes.items():
                    if node.install_or_fetch():
                        yield f"  {number.node_id} installed the leader's files"
        raise AssertionError("not stable after 10,000 steps")

    def do_cut(self, *numbers: str) -> Iterator[str]:
        """Cut these nodes off from the others: `cut 1 2`."""
        self.cluster.isolate(*_numbers(numbers))
        yield from ()

    def do_heal(self) -> Iterator[str]:
        self.cluster.isolate()
        yield from ()

    # pictures

    def do_show(self, *numbers: str) -> Iterator[str]:
        for number in _numbers(numbers) or [me.node_id for me in self.cluster.nodes]:
            node = self.cluster[number]
            yield describe_core(node.core) if node.is_up else f"{number} is down"

    def do_log(self, number: str) -> Iterator[str]:
        log = self.cluster[int(number)].log
        yield f"{log.boundary} | " + " ".join(map(describe_entry, log.entries_from_start()))

    def do_progress(self, number: str) -> Iterator[str]:
        for follower in self.cluster.core(int(number)).status().followers:
            yield f"{follower.member.node_id} {follower.state} match {follower.match_index} next {follower.next_index}"

    def do_reads(self, number: str) -> Iterator[str]:
        node = self.cluster[int(number)]
        yield from (f"{read.request} at {read.index}" for read in node.reads)
        yield from (f"{request} failed" for request in node.reads_failed)
        node.reads.clear()
        node.reads_failed.clear()

    def do_network(self) -> Iterator[str]:
        yield from map(describe_message, self.cluster.network)

    def _matching(self, which: dict[str, str]) -> list[Message]:
        """Return the messages on the network from, to and of the kind that the options name."""
        sender, to, kind = which.get("from"), which.get("to"), which.get("kind")
        return [
            message
            for message in self.cluster.network
            if (sender is None or message.sender.node_id == int(sender))
            and (to is None or message.to.node_id == int(to))
            and (kind is None or type(message).__name__ == kind)
        ]


def _numbers(words: object) -> list[int]:
    assert isinstance(words, (list, tuple))
    return [NodeId(int(word)) for word in words if word]


def _position(network: list[Message], message: Message) -> int:
    return next(at for at, other in enumerate(network) if other is message)


def _outcome(outcome: Accepted | RefusedProposal | None) -> str:
    if outcome is None:
        return "taken"
    if isinstance(outcome, Accepted):
        return f"accepted in term {outcome.term}: {outcome.first_index} to {outcome.last_index}"
    return f"refused: {outcome.reason.value}" + (f" ({outcome.detail})" if outcome.detail else "")


def replay(text: str) -> str:
    """Return the transcript with its present output."""
    interpreter = Interpreter()
    blocks = []
    for block in text.strip().split("\n\n"):
        lines = block.split("\n")
        commands = lines[: lines.index(_SEPARATOR)] if _SEPARATOR in lines else lines
        done = [line for line in commands if not line.startswith("#")]
        blocks.append("\n".join([*commands, _SEPARATOR, interpreter.run(done)]) if done else block)
    return "\n\n".join(blocks) + "\n"


def main(arguments: list[str]) -> int:
    """Compare transcripts with the present output, or replace them (`--rewrite`)."""
    rewrites = "--rewrite" in arguments
    files = [Path(word) for word in arguments if word != "--rewrite"] or sorted(SCENARIOS.glob("*.txt"))
    different = 0
    for file in files:
        before = file.read_text()
        now = replay(before)
        if now != before:
            different += 1
            print(f"{file.name}: {'rewritten' if rewrites else 'differs'}")
            if rewrites:
                file.write_text(now)
    return 1 if different and not rewrites else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
