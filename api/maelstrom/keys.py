"""Access to keys from any node: commands go to the leader; reads use the local copy once it is new enough.

    command     executed here if this node leads; otherwise sent to the leader, which never forwards it
    read        answered from the local copy, after a read index of the group, which a majority confirms

A command that was definitely not appended is retried until the deadline. After an append, or when a forwarded
command was not answered, its outcome is unknown: only commands that are safe to repeat are sent again. Called by
the workloads."""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from raftlog.api.maelstrom.errors import Code
from raftlog.api.maelstrom.groups import MaelstromGroups
from raftlog.api.maelstrom.keyspace import Keyspace
from raftlog.api.maelstrom.machine import CommandOutcome, KeyCommand
from raftlog.errors import (
    DeadlineExceeded,
    InvalidArgument,
    NoLeader,
    NotLeader,
    OutcomeUnknown,
    RaftlogError,
    Unavailable,
)
from raftlog.partitions.deadline import Deadline
from raftlog.runtime.rpc.calls import Answer, Call
from raftlog.types import NodeId

COMMANDS: Final = "maelstrom.commands"
_RETRY_S: Final = 0.1
"""Seconds between two attempts, unless the leader changes before."""
_NO_CODE: Final = -1


class Keys:
    """Access to all keys of the cluster from this node."""

    def __init__(self, groups: MaelstromGroups, repeat_ms: int) -> None:
        """Create access to the keys.

        Reads, and commands that are safe to repeat, are sent again when they were not answered for `repeat_ms`."""
        self._groups, self._repeat_ms = groups, repeat_ms
        self._loop = asyncio.get_running_loop()

    def keyspace_of(self, key: str) -> Keyspace:
        """Return the keyspace that contains a key, given the key's text."""
        return self._groups.keyspace_of(key)

    def keyspaces(self) -> Sequence[Keyspace]:
        return self._groups.keyspaces

    # commands

    async def execute(self, command: KeyCommand, deadline: Deadline, *, may_repeat: bool = False) -> CommandOutcome:
        """Execute a command; raises `Unavailable` and `InvalidArgument` (no effect), or `OutcomeUnknown`."""
        outcomes = await self._execute(self.keyspace_of(command.key), [command], deadline, may_repeat)
        return outcomes[0]

    async def execute_all(self, commands: Sequence[KeyCommand], deadline: Deadline) -> None:
        """Execute repeatable commands for any keys; raises `OutcomeUnknown` if only some of them had an effect."""
        by_space: dict[int, list[KeyCommand]] = {}
        for command in commands:
            by_space.setdefault(self.keyspace_of(command.key).number, []).append(command)
        spaces = self.keyspaces()
        results = await asyncio.gather(
            *(self._execute(spaces[number], some, deadline, True) for number, some in by_space.items()),
            return_exceptions=True,
        )
        failures = [result for result in results if isinstance(result, BaseException)]
        for failure in failures:
            if not isinstance(failure, RaftlogError) or failure.outcome == "unknown" or len(failures) == len(results):
                raise failure
        if failures:
            raise OutcomeUnknown(f"done for some of the keys only: {failures[0]}")

    async def _execute(
        self, space: Keyspace, commands: Sequence[KeyCommand], deadline: Deadline, may_repeat: bool
    ) -> list[CommandOutcome]:
        """Execute commands in one keyspace.

        Repeats an attempt while there is no leader; with `may_repeat` also one whose answer was lost."""
        unknown: OutcomeUnknown | None = None
        while True:
            try:
                return await self._attempt(space, commands, deadline, may_repeat)
            except (NotLeader, NoLeader) as error:
                if not await self._pause(space, deadline):
                    raise unknown or error from None
            except OutcomeUnknown as error:
                unknown = error  # despite the results of later attempts, this one may have been executed
                if not may_repeat or self._loop.time() >= deadline:
                    raise
            except RaftlogError as error:
                raise unknown or error from None

    async def _attempt(
        self, space: Keyspace, commands: Sequence[KeyCommand], deadline: Deadline, may_repeat: bool
    ) -> list[CommandOutcome]:
        """Execute commands here or at the leader, once. Raises `NoLeader`, `NotLeader` and the leader's errors."""
        if space.is_leader:
            return await self._propose(space, commands, deadline)
        leader = space.leader
        if leader is None:
            raise NoLeader(f"group {space.number} has no known leader")
        left_ms = int((deadline - self._loop.time()) * 1000)
        call = Call(
            COMMANDS,
            [space.number, [list(command) for command in commands]],
            timeout_ms=max(1, min(left_ms, self._repeat_ms) if may_repeat else left_ms),
        )
        answer = await self._groups.transport.call(leader, call)
        return _parse_outcomes(answer, len(commands))

    async def _propose(self, space: Keyspace, commands: Sequence[KeyCommand], deadline: float) -> list[CommandOutcome]:
        """Append commands here; return their outcomes. Raises `DeadlineExceeded` unless they are committed in time."""
        try:
            async with asyncio.timeout_at(deadline):
                return await space.propose(commands)
        except TimeoutError:
            raise DeadlineExceeded(f"group {space.number} appended the command and did not commit it in time") from None

    async def _pause(self, space: Keyspace, deadline: Deadline) -> bool:
        """Wait a moment, or for a change of leader; return false if no time is left."""
        await self._groups.wait_for_leader_change(space, Deadline(min(deadline, self._loop.time() + _RETRY_S)))
        return self._loop.time() < deadline

    # reads

    async def confirm(self, space: Keyspace, deadline: Deadline) -> None:
        """Wait until the local copy contains everything acknowledged before the call. Raises `Unavailable`."""
        while True:
            try:
                async with asyncio.timeout_at(min(deadline, self._loop.time() + self._repeat_ms / 1000)):
                    await space.group.read_index()
                return
            except NotLeader:
                if not await self._pause(space, deadline):
                    raise
            except TimeoutError:
                if self._loop.time() >= deadline:
                    raise Unavailable(f"no majority of group {space.number} answered in time") from None

    async def confirm_all(self, spaces: Sequence[Keyspace], deadline: Deadline) -> None:
        """Call `confirm` for several groups at once. Raises `Unavailable`."""
        async with asyncio.TaskGroup() as confirming:
            for space in spaces:
                confirming.create_task(self.confirm(space, deadline))

    # requests of other nodes

    async def serve(self, node: NodeId, request: object) -> object:
        """Execute commands that another node forwards, or a request of its driver. Raises `RaftlogError`."""
        if not isinstance(request, Call):
            return await self._groups.driver.serve(node, request)
        number, commands = _parse_commands(request)
        if not number < len(self.keyspaces()):
            raise InvalidArgument(f"there is no group {number}")
        space = self.keyspaces()[number]
        if not space.is_leader:
            raise NotLeader(f"another node leads group {number}", space.group.core.leader)
        outcomes = await self._propose(space, commands, self._loop.time() + request.timeout_ms / 1000)
        return Answer([[_NO_CODE if code is None else int(code), offset] for code, offset in outcomes])


def _parse_commands(call: Call) -> tuple[int, list[KeyCommand]]:
    """Return the group and the commands of a call; raises `InvalidArgument`."""
    match call:
        case Call(name=name, value=[int(number), [*pairs]]) if name == COMMANDS and pairs and number >= 0:
            commands = [_parse_command(pair) for pair in pairs]
            return number, commands
    raise InvalidArgument(f"request {call.name} cannot be decoded")


def _parse_command(pair: Any) -> KeyCommand:
    """Return the command of a pair from another node. Raises `InvalidArgument`."""
    match pair:
        case [str(key), str(what)]:
            return KeyCommand(key, what)
    raise InvalidArgument("the command cannot be decoded")


def _parse_outcomes(answer: Answer, count: int) -> list[CommandOutcome]:
    """Return the outcomes in a leader's answer to `count` commands.

    The commands were executed, so an answer that cannot be read leaves only their outcome unknown."""
    try:
        outcomes = [CommandOutcome(None if code == _NO_CODE else Code(code), offset) for code, offset in answer.value]
    except (TypeError, ValueError) as error:
        raise OutcomeUnknown(f"the answer cannot be decoded: {error}") from None
    if len(outcomes) != count:
        raise OutcomeUnknown(f"{count} commands were answered with {len(outcomes)} outcomes")
    return outcomes
