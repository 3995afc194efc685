"""Supervisor of the processes of `raftlog dev`: starts them together, watches, restarts and ends them.

    a node runs → exits (reported; the others continue)
                → is restarted: SIGTERM → exit → start of its command, with the same or another interpreter → ready line

Called by `dev`, and through its control socket (`raftlog.cli.dev.control`)."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from raftlog.cli.children import Child
from raftlog.cli.outcome import CommandFailed

RESTART_SECONDS_MAX: Final = 60.0
"""Maximum time from the start of a node to its ready line."""


class DevNode(NamedTuple):
    """Description of one node, and its process."""

    node_id: int
    http: str
    """HOST:PORT, after `https://` with TLS."""
    kafka: str
    rpc: str
    gossip: str
    data_dir: str
    child: Child

    def as_json(self) -> dict[str, Any]:
        """Return the node's addresses, process and command."""
        return {
            "node_id": self.node_id,
            "pid": self.child.pid,
            "http": self.http,
            "kafka": self.kafka,
            "rpc": self.rpc,
            "gossip": self.gossip,
            "data_dir": self.data_dir,
            "command": self.child.command,
        }


class RestartResult(NamedTuple):
    """Result of a successful restart. `stopped_s`: duration of the stop; `ready_s`: duration of the start."""

    pid: int
    stopped_s: float
    ready_s: float


class Supervisor:
    """Supervisor of nodes. `echo` prints a line; `restart_command` returns the command that restarts a node."""

    def __init__(
        self, nodes: Sequence[DevNode], echo: Callable[[str], None], restart_command: Callable[[int], str]
    ) -> None:
        """Prepare to watch the nodes.

        `echo` prints a message, `restart_command` returns the command that restarts a node."""
        self.nodes, self._echo = {node.node_id: node for node in nodes}, echo
        self._restart_command = restart_command
        self._requested: set[int] = set()
        """Nodes that are being restarted, whose exit is therefore expected."""
        self._watches: set[asyncio.Task[None]] = set()
        self._all_ended = asyncio.Event()
        self._is_ending = False

    async def start(self) -> None:
        """Start all nodes, without waiting until they are ready."""
        for node in self.nodes.values():
            await node.child.start(own_session=True)

    def watch(self) -> None:
        """Report every node that exits unrequested from now on."""
        for node in self.nodes.values():
            self._watch(node)

    async def wait_for_all(self) -> None:
        """Wait until no node runs or is being restarted."""
        await self._all_ended.wait()

    async def end(self) -> list[tuple[DevNode, int]]:
        """Stop all running nodes for good; return them with their exit codes."""
        self._is_ending = True
        for watch in self._watches:
            watch.cancel()
        running = [node for node in self.nodes.values() if node.child.is_running]
        codes = await asyncio.gather(*(node.child.end() for node in running))
        return list(zip(running, codes, strict=True))

    async def restart(self, node_id: int, python: str | None = None) -> RestartResult:
        """Stop a node gracefully if it runs, and start it; `python` is its interpreter from now on.

        Raises `CommandFailed` if there is no such node, if it is already being restarted, or if it does not become
        ready; in the last case it has exited, or its log has the reason for the delay.
        """
        node = self.nodes.get(node_id)
        if node is None:
            raise CommandFailed(f"node {node_id} does not exist; the nodes are {', '.join(map(str, self.nodes))}")
        if node_id in self._requested:
            raise CommandFailed(f"node {node_id} is being restarted already; wait until it is ready")
        self._requested.add(node_id)
        try:
            return await self._restart(node, python)
        finally:
            self._requested.discard(node_id)
            self._watch(node)

    async def _restart(self, node: DevNode, python: str | None) -> RestartResult:
        """Stop a node and start it, with another interpreter if one is named.

        Raises `CommandFailed` if it is not ready."""
        began = time.monotonic()
        code = await node.child.end() if node.child.is_running else 0
        ended = time.monotonic()
        if self._is_ending:
            raise CommandFailed(f"`raftlog dev` is stopping, and so node {node.node_id} was not restarted")
        if code:
            self._echo(f"node {node.node_id} did not stop cleanly: {node.child.describe_exit()}; restarting it")
        if python is not None:
            node.child.command = replace_interpreter(python, node.child.command)
        await node.child.start(own_session=True)
        try:
            async with asyncio.timeout(RESTART_SECONDS_MAX):
                await node.child.read_ready_line()
        except TimeoutError:
            raise CommandFailed(
                f"node {node.node_id} runs, but is not ready after {RESTART_SECONDS_MAX:g} s; "
                f"its log is {node.data_dir}.log"
            ) from None
        ready = time.monotonic()
        self._echo(f"node {node.node_id} was restarted (pid {node.child.pid}), ready after {ready - ended:.1f} s")
        return RestartResult(node.child.pid, ended - began, ready - ended)

    def _watch(self, node: DevNode) -> None:
        """Report in the background when a node ends."""
        watch = asyncio.get_running_loop().create_task(self._report_exit(node), name=f"watch node {node.node_id}")
        self._watches.add(watch)
        watch.add_done_callback(self._watches.discard)

    async def _report_exit(self, node: DevNode) -> None:
        """Report that a node has ended, unless this was requested; the run ends with the last node."""
        await node.child.wait()
        if node.node_id in self._requested:
            return
        self._echo(
            f"node {node.node_id} (pid {node.child.pid}) ended, {node.child.describe_exit()}; the others continue. "
            f"To restart it: {self._restart_command(node.node_id)}"
        )
        if not self._requested and not any(each.child.is_running for each in self.nodes.values()):
            self._all_ended.set()


def replace_interpreter(python: str, command: Sequence[str]) -> list[str]:
    """Return the command for another interpreter, which uses the raftlog installed there.

    The working directory is not searched for modules."""
    arguments = [*command[1:]]
    return [python, *([] if arguments[0] == "-P" else ["-P"]), *arguments]
