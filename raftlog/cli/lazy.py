"""Command group whose verbs are imported when they are used."""

import difflib
import gc
import importlib
from collections.abc import Mapping
from types import ModuleType
from typing import Any, NamedTuple

import click


class Verb(NamedTuple):
    """Entry point of a verb below `raftlog.cli`, as `module:function`, and its line in the group's help.

    The line is shown without importing the module."""

    target: str
    help: str

    @property
    def module(self) -> str:
        """Name of the module that defines the verb."""
        return f"raftlog.cli.{self.target.partition(':')[0]}"


class OutputClosed(Exception):
    """The reader of the verb's output closed the pipe."""


class LazyGroup(click.Group):
    """Click group over a table of verbs."""

    def __init__(self, *args: Any, verbs: Mapping[str, Verb], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._verbs = verbs

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._verbs)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command; None for an unknown name."""
        verb = self._verbs.get(cmd_name)
        if verb is None:
            return None
        command = getattr(_import_module(verb.module), verb.target.partition(":")[2])
        assert isinstance(command, click.Command), f"{verb.target} is not a command"
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the verb; a mistyped one is a usage error that names the nearest."""
        name = args[0]
        if name not in self._verbs and not name.startswith("-") and not ctx.resilient_parsing:
            near = difflib.get_close_matches(name, self._verbs, n=1)
            ctx.fail(f"No such command {name!r}.{f' Did you mean {near[0]!r}?' if near else ''}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a verb; raise `OutputClosed` on a closed pipe, for which click would exit with code 1."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise OutputClosed from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl([(name, verb.help) for name, verb in self._verbs.items()])


def _import_module(module: str) -> ModuleType:
    """Import a module with the garbage collector off.

    Hardly any object of a module becomes garbage, and the collections during imports take a tenth of a broker's start.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return importlib.import_module(module)
    finally:
        if was_enabled:
            gc.enable()
