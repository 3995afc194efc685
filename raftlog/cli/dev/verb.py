"""`raftlog dev`: a cluster on this machine in one command, for as long as it runs.

Node i (from 1) serves HTTP on the port `base port + 10·i`, and Kafka, RPC and gossip on the next three ports. In the
data directory, `node-i` has its data, `node-i.log` its log, and `cluster.secret` the secret that the nodes share. With
`--workers N` node i uses N times ten ports from `base port + 10·(N·(i-1)+1)` on."""

import asyncio
import os
import shlex
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final

import click
import orjson
from rich.console import Console
from rich.status import Status

from raftlog.cli.children import Child, run_until
from raftlog.cli.dev.control import DevControl, send_request
from raftlog.cli.dev.plan import check_plan
from raftlog.cli.dev.supervisor import DevNode, Supervisor
from raftlog.cli.options import json_option, option
from raftlog.cli.outcome import CommandFailed
from raftlog.cli.serve.workers import PORT_STEP, WORKERS_MAX, worker_ids
from raftlog.cli.tables import Columns, format_count, show, table_of
from raftlog.client import BrokerAddresses, BrokerClient
from raftlog.cluster_secret import ensure_secret
from raftlog.errors import AuthenticationFailed, Unavailable
from raftlog.testing.security import ClusterSecurity, prepare_security

HOST: Final = "127.0.0.1"
DATA_DIR_DEFAULT: Final = "./raftlog-dev"
BASE_PORT_DEFAULT: Final = 8072
"""Base port with which the first node has the address that clients use by default."""
NODES_MAX: Final = 99
KAFKA_STEP: Final = 1
RPC_STEP: Final = 2
GOSSIP_STEP: Final = 3
SECRET_FILE: Final = "cluster.secret"  # noqa: S105 - a file name
"""File in the data directory with the secret of the cluster; created at the first start."""
START_SECONDS_MAX: Final = 60.0
POLL_SECONDS: Final = 0.02


@click.command()
@option("--nodes", "-n", type=click.IntRange(1, NODES_MAX), default=3, help="Number of nodes.")
@option(
    "--data-dir",
    type=click.Path(),
    default=DATA_DIR_DEFAULT,
    help="Directory of all data; with the directory of an earlier run, the cluster continues from its data.",
)
@option(
    "--base-port",
    type=click.IntRange(1, 65_000),
    default=BASE_PORT_DEFAULT,
    help="Node i (from 1) serves HTTP on this port + 10 i; Kafka is one port above, and RPC two.",
)
@option("--workers", type=click.IntRange(1, WORKERS_MAX), default=1, help="Broker processes of each node.")
@option(
    "--restart",
    metavar="NODE",
    type=click.IntRange(min=1),
    help="Restart this node of the cluster that runs in --data-dir, and exit; a running node is stopped first.",
)
@option(
    "--secure",
    is_flag=True,
    help="Use TLS on every address, and require logins and permissions; the superuser's password is in --data-dir.",
)
@json_option("Print one line of JSON once the cluster accepts writes, or the restarted node serves.")
def dev(
    nodes: int, data_dir: str, base_port: int, workers: int, restart: int | None, secure: bool, as_json: bool
) -> None:
    """Run a cluster on this machine until Ctrl-C, which stops all nodes.

    A node that crashes is reported and the others continue; `raftlog dev --restart NODE` restarts it.
    """
    directory = Path(data_dir).absolute()
    if restart is not None:
        asyncio.run(_restart(directory, restart, as_json))
        return
    if base_port + PORT_STEP * (nodes * workers + 1) > 65_535:
        raise click.UsageError(f"--base-port {base_port} leaves no room for {nodes} nodes below port 65536")
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_plan(directory, nodes=nodes, base_port=base_port, workers=workers, secure=secure)
    security = None
    if secure:
        security = prepare_security(directory, range(1, nodes + 1), lambda node: worker_ids(node, workers))
    planned = plan_nodes(nodes, directory, base_port, workers, security)
    asyncio.run(_Dev(planned, directory, as_json, security).run())


async def _restart(directory: Path, node: int, as_json: bool) -> None:
    """Restart a node of the running `raftlog dev`, and print how long it took."""
    done = await send_request(directory, {"order": "restart", "node_id": node, "python": None})
    if as_json:
        click.echo(orjson.dumps({"node_id": node, **done}))
    else:
        click.echo(f"node {node} was restarted (pid {done['pid']}), ready after {done['ready_s']:.1f} s")


def _restart_command(directory: Path, node: int | str) -> str:
    """Return the command that starts a node again, from any working directory."""
    return f"raftlog dev --restart {node} --data-dir {shlex.quote(str(directory))}"


def plan_nodes(
    nodes: int, directory: Path, base_port: int, workers: int, security: ClusterSecurity | None = None
) -> list[DevNode]:
    """Plan the nodes: their addresses, directories and commands."""
    secret = ensure_secret(str(directory / SECRET_FILE))
    first_ports = [base_port + PORT_STEP * (workers * number + 1) for number in range(nodes)]
    seeds = ",".join(f"{HOST}:{port + RPC_STEP}" for port in first_ports)
    shared = ["--seeds", seeds, "--cluster-secret-file", secret, "--log-format", "json"]
    if workers > 1:
        shared += ["--workers", str(workers)]
    return [_plan_node(number, port, directory, shared, security) for number, port in enumerate(first_ports, start=1)]


def _plan_node(
    number: int, port: int, directory: Path, shared: Sequence[str], security: ClusterSecurity | None
) -> DevNode:
    """Return the description of a node: its addresses, its directory and the command that starts it."""
    http, kafka, rpc, gossip = (f"{HOST}:{port + step}" for step in (0, KAFKA_STEP, RPC_STEP, GOSSIP_STEP))
    data_dir = str(directory / f"node-{number}")
    command = [sys.executable, "-P", "-m", "raftlog.cli", "serve", "--data-dir", data_dir, "--http", http, "--rpc", rpc]
    command += ["--kafka", kafka, "--node-id", str(number), "--host-label", f"dev-{number}", *shared]
    environment = None
    if security is not None:
        command += security.flags(number)
        environment, http = security.environment(), f"https://{http}"
    child = Child(f"node {number}", command, directory / f"node-{number}.log", environment)
    return DevNode(number, http, kafka, rpc, gossip, data_dir, child)


class _Dev:
    """One run of `raftlog dev`: starts the nodes, waits for a signal, and stops them."""

    def __init__(
        self, nodes: Sequence[DevNode], directory: Path, as_json: bool, security: ClusterSecurity | None = None
    ) -> None:
        """Prepare the cluster of these nodes in `directory`."""
        self._nodes, self._directory, self._as_json = nodes, directory, as_json
        self._security = {} if security is None else security.as_json()
        """Certificate authority, user and password file, by the names of the arguments of `BrokerAddresses`."""
        self._supervisor = Supervisor(nodes, self._echo, lambda node: _restart_command(directory, node))
        self._control = DevControl(directory, self._execute)
        self._cluster_id = ""
        self._console = Console(stderr=True, highlight=False)

    async def run(self) -> None:
        """Run all nodes until a signal or an error, then stop them. Raises the error."""
        work = await run_until(asyncio.Event(), (signal.SIGTERM, signal.SIGINT, signal.SIGHUP), self._work())
        self._control.stop()
        try:
            await self._stop_nodes()
        finally:
            if not work.cancelled():
                work.result()  # its error is the cause of the end

    async def _stop_nodes(self) -> None:
        """Stop all nodes; raises `CommandFailed` if one did not stop cleanly."""
        self._echo("stopping all nodes")
        ended = await self._supervisor.end()
        wrong = [f"node {node.node_id} ({code})" for node, code in ended if code != 0]
        if wrong:
            raise CommandFailed(f"nodes did not stop cleanly (exit codes): {', '.join(wrong)}")
        self._echo(f"stopped {format_count(len(ended), 'node')}")

    async def _work(self) -> None:
        """Start the nodes, and return when none is left."""
        began = time.monotonic()
        await self._supervisor.start()
        self._cluster_id = await self._wait_until_writable()
        await self._control.start()
        self._supervisor.watch()
        self._print_ready(self._cluster_id, time.monotonic() - began)
        await self._supervisor.wait_for_all()
        raise CommandFailed("all nodes have ended; run the same command again to restart the cluster")

    async def _execute(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a request of another command: the list of nodes, or the result of a restart."""
        match request:
            case {"order": "nodes"}:
                return self._describe()
            case {"order": "restart", "node_id": int(node_id), "python": str() | None as python}:
                return (await self._supervisor.restart(node_id, python))._asdict()
        raise CommandFailed("the request is unknown; the command and `raftlog dev` are of different releases")

    def _describe(self) -> dict[str, Any]:
        """Return the description of the running cluster."""
        nodes = [node.as_json() for node in self._nodes]
        return {"cluster_id": self._cluster_id, **self._security, "nodes": nodes}

    async def _wait_until_writable(self) -> str:
        """Start all nodes, wait until the cluster accepts writes, and return the cluster id."""
        starting = f"starting {format_count(len(self._nodes), 'node')}"
        is_shown = self._console.is_terminal and not self._as_json
        if not is_shown:
            self._echo(starting)
        with self._console.status(starting) if is_shown else nullcontext() as status:
            try:
                async with asyncio.timeout(START_SECONDS_MAX):
                    lines = await self._wait_until_ready(status)
                    await self._wait_for_leader()
            except TimeoutError:
                raise CommandFailed(
                    f"the cluster is not ready after {START_SECONDS_MAX:g} s; see the logs in "
                    f"{Path(self._nodes[0].data_dir).parent}"
                ) from None
        return str(lines[0]["cluster_id"])

    async def _wait_until_ready(self, status: Status | None) -> list[dict[str, Any]]:
        """Wait for the ready lines and return them. Raises `CommandFailed` for the first node that exits instead."""
        waiting = {node.node_id: node for node in self._nodes}

        async def wait_for_node(node: DevNode) -> dict[str, Any]:
            """Wait until the node serves; return its line of JSON."""
            line: dict[str, Any] = orjson.loads(await node.child.read_ready_line())
            del waiting[node.node_id]
            if status is not None:
                status.update(f"waiting for {', '.join(f'node {number}' for number in waiting)}")
            return line

        try:
            async with asyncio.TaskGroup() as group:
                starting = [group.create_task(wait_for_node(node)) for node in self._nodes]
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None
        return [task.result() for task in starting]

    async def _wait_for_leader(self) -> None:
        """Wait until the controller has a leader, so that the cluster accepts writes."""
        addresses = BrokerAddresses([node.http for node in self._nodes], **self._security)
        async with BrokerClient(addresses) as client:
            while True:
                try:
                    if (await client.health()).controller_id is not None:
                        return
                except (Unavailable, AuthenticationFailed):  # the superuser is created meanwhile
                    pass
                await asyncio.sleep(POLL_SECONDS)

    def _print_ready(self, cluster_id: str, seconds: float) -> None:
        """Print the nodes and how to use them; as JSON one line."""
        if self._as_json:
            click.echo(orjson.dumps(self._describe()))
            sys.stdout.flush()
            return
        click.echo(f"{format_count(len(self._nodes), 'node')} of cluster {cluster_id}, ready after {seconds:.1f} s\n")
        show(table_of(self._nodes, _NODE))
        click.echo(
            f"\nexport RAFTLOG_BOOTSTRAP={','.join(node.http for node in self._nodes)}{self._exports()}\n"
            f"To restart a killed node: {_restart_command(self._directory, 'NODE')}\nCtrl-C stops all nodes."
        )
        sys.stdout.flush()

    def _exports(self) -> str:
        """Return further variables for clients, as arguments of `export`."""
        return "".join(f" RAFTLOG_{name.upper()}={shlex.quote(value)}" for name, value in self._security.items())

    def _echo(self, line: str) -> None:
        click.echo(line, err=True)


def _shorten_path(path: str) -> str:
    """Return the path relative to the working directory, if it is below."""
    relative = os.path.relpath(path)
    return relative if not relative.startswith("..") else path


_NODE: Columns[DevNode] = {
    "node": lambda node: node.node_id,
    "HTTP": lambda node: node.http,
    "Kafka": lambda node: node.kafka,
    "RPC": lambda node: node.rpc,
    "gossip": lambda node: node.gossip,
    "pid": lambda node: node.child.pid,
    "data": lambda node: _shorten_path(node.data_dir),
}
