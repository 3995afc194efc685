"""Restarters of brokers for a rolling restart: through the `raftlog dev` that supervises them, or by a command.

--data-dir DIR      the nodes of `raftlog dev` there
--command WORDS     run for each broker; {node_id}, {host} and {http} are replaced by the broker's values"""

import asyncio
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any, Final

import click

from raftlog.cli.dev.control import send_request
from raftlog.cli.dev.supervisor import replace_interpreter
from raftlog.cli.outcome import CommandFailed
from raftlog.cli.rolling.steps import RestartUnit
from raftlog.client import BrokerAddresses, BrokerDescription
from raftlog.testing.security import SECURITY_FIELDS

OUTPUT_SHOWN_BYTES: Final = 500


class DevRestarter:
    """Restarter through the supervisor in `raftlog dev`. `cluster` is the supervisor's description of its nodes."""

    def __init__(self, directory: Path, cluster: Mapping[str, Any], python: str | None) -> None:
        self._directory, self._python = directory, python
        self._nodes = {int(node["node_id"]): node for node in cluster["nodes"]}
        self._security = {name: str(cluster[name]) for name in SECURITY_FIELDS if name in cluster}

    @property
    def addresses(self) -> BrokerAddresses:
        return BrokerAddresses([str(node["http"]) for node in self._nodes.values()], **self._security)

    def units(self, brokers: Sequence[BrokerDescription]) -> list[RestartUnit]:
        """Return a unit for each node: its broker, and its workers, which have its host label and stop with it.

        A node that was removed from the cluster is not restarted."""
        units = []
        for node_id in self._nodes:
            label = f"dev-{node_id}"
            own = tuple(broker.node_id for broker in brokers if broker.host == label or broker.node_id == node_id)
            if own:
                units.append(RestartUnit(node_id, own))
        return units

    async def restart(self, unit: RestartUnit) -> dict[str, Any]:
        """Request the restart from `raftlog dev`; return its answer."""
        request = {"order": "restart", "node_id": unit.node_id, "python": self._python}
        return await send_request(self._directory, request)

    def description(self, unit: RestartUnit) -> str:
        """Return the command that will run in the new process."""
        command = list(map(str, self._nodes[unit.node_id]["command"]))
        return shlex.join(command if self._python is None else replace_interpreter(self._python, command))


class CommandRestarter:
    """Restarter by a command that ends with exit code 0 once the broker is running again."""

    def __init__(self, command: str, brokers: Sequence[BrokerDescription], timeout_s: float) -> None:
        self._words, self._timeout_s = _split_command(command), timeout_s
        self._brokers = {broker.node_id: broker for broker in brokers}

    def units(self) -> list[RestartUnit]:
        """Return one unit for each broker."""
        return [RestartUnit(node_id, (node_id,)) for node_id in self._brokers]

    async def restart(self, unit: RestartUnit) -> dict[str, Any]:
        """Run the command for a unit. Raises `CommandFailed` if it fails or takes too long."""
        words = self._make_command(unit)
        try:
            process = await asyncio.create_subprocess_exec(
                *words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
            )
        except OSError as error:
            raise CommandFailed(f"{words[0]} cannot be run: {error.strerror}") from None
        try:
            async with asyncio.timeout(self._timeout_s):
                output, _ = await process.communicate()
        except TimeoutError:
            process.kill()
            await process.wait()
            raise CommandFailed(f"{shlex.join(words)} did not end within {self._timeout_s:g} s") from None
        if process.returncode:
            last_output = output[-OUTPUT_SHOWN_BYTES:].decode(errors="replace").strip()
            more = f": {last_output}" if last_output else ", and without output"
            raise CommandFailed(f"{shlex.join(words)} ended with exit code {process.returncode}{more}")
        return {}

    def description(self, unit: RestartUnit) -> str:
        """Return the command that restarts the unit."""
        return shlex.join(self._make_command(unit))

    def _make_command(self, unit: RestartUnit) -> list[str]:
        """Return the words of the command for a unit."""
        broker = self._brokers[unit.node_id]
        values = {"{node_id}": str(broker.node_id), "{host}": broker.host or "", "{http}": broker.http or ""}
        return [_fill_in(word, values) for word in self._words]


def _fill_in(word: str, values: Mapping[str, str]) -> str:
    """Return a word with its placeholders replaced. Raises `CommandFailed` for an empty value or one like an option."""
    for name, value in values.items():
        if name in word and (not value or value.startswith("-")):
            raise CommandFailed(f"a broker has no {name} that a command could be given: {value!r}")
    return reduce(lambda filled, each: filled.replace(*each), values.items(), word)


def _split_command(command: str) -> list[str]:
    """Return the words of `--command`, split as by a shell; raises `click.UsageError` if that fails."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise click.UsageError(f"--command {command!r} cannot be read: {error}") from None
    if not words:
        raise click.UsageError("--command is empty")
    return words
