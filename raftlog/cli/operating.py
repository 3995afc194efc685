"""What operators' verbs have in common: one client for a verb, errors that name the next command, looking again.

An order that was taken goes on by itself, so waiting for its end may break off at any time, and says where to look.
"""

import asyncio
import functools
import importlib
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, TypeVar, cast

import click

from raftlog.cli.options import F, bootstrap_option, json_option, option
from raftlog.cli.outcome import CommandFailed
from raftlog.client import BrokerClient, NotListening
from raftlog.client.failures import is_passing
from raftlog.client.outage import Outage
from raftlog.errors import (
    GroupNotEmpty,
    OutcomeUnknown,
    RaftlogError,
    Unavailable,
    UnknownBroker,
    UnknownGroup,
    UnknownPartition,
    UnknownTopic,
    VersionConflict,
)
from raftlog.values.value import to_json

T = TypeVar("T")

LOOK_SECONDS: Final = 1.0
PATIENCE_SECONDS: Final = 30.0
"""For so long whoever looks again puts up with brokers that do not answer."""
FIRST_LOOK_SECONDS: Final = 5.0
WAIT_SECONDS: Final = 3_600
_HINTS: Final[tuple[tuple[type[RaftlogError], str], ...]] = (
    (UnknownBroker, "`raftlog broker list` shows the brokers"),
    (UnknownTopic, "`raftlog topic list` shows the topics"),
    (UnknownPartition, "`raftlog partition list` shows the partitions"),
    (UnknownGroup, "`raftlog group list` shows the groups"),
    (GroupNotEmpty, "`raftlog group describe` shows them"),
    (VersionConflict, "if it still makes sense, order it with the version of now"),
    (NotListening, "`--bootstrap` names others"),
    (OutcomeUnknown, "look whether it happened; an order that names what shall be can be given again"),
    (Unavailable, "`raftlog cluster health` says what is wrong"),
)


def operate(bootstrap: Sequence[str], work: Callable[[BrokerClient], Awaitable[T]]) -> T:
    """Run `work` with a client. An error says which command helps on."""

    async def with_client() -> T:
        async with BrokerClient(bootstrap) as client:
            return await work(client)

    with _hinting():
        return asyncio.run(with_client())


@contextmanager
def until_ctrl_c(goes_on: bool) -> Iterator[None]:
    """Of what is watched without an end Ctrl-C is the way out, and no error."""
    try:
        yield
    except KeyboardInterrupt:
        if not goes_on:
            raise
        raise click.exceptions.Exit(0) from None


@contextmanager
def _hinting() -> Iterator[None]:
    try:
        yield
    except RaftlogError as error:
        hint = _hint(error)
        if hint is not None:
            error.args = (f"{error}; {hint}",)
        raise


def _hint(error: RaftlogError) -> str | None:
    if "there is nothing at" in str(error):  # no such path
        return (
            "is that broker of an older release (`raftlog cluster info`)? name one of this release with `--bootstrap`"
        )
    return next((hint for kind, hint in _HINTS if isinstance(error, kind)), None)


class OperatorVerb(NamedTuple):
    """What every operators' verb is given: which brokers it asks, and whether it prints JSON."""

    bootstrap: Sequence[str]
    as_json: bool

    def ask(self, work: Callable[[BrokerClient], Awaitable[T]]) -> T:
        """Run `work` with a client, as `operate`."""
        return operate(self.bootstrap, work)

    def say(self, value: T, words: str | Callable[[T], object]) -> None:
        """Print a value as JSON, or for people: in these words, or by this function."""
        if self.as_json:
            click.echo(to_json(value))
        elif isinstance(words, str):
            click.echo(words)
        else:
            words(value)

    def look(self, watches: bool, ask: Callable[[BrokerClient], Awaitable[T]], show: Callable[[T], object]) -> None:
        """Show what is there; with `watches` again whenever it has changed, until Ctrl-C."""

        async def shown(client: BrokerClient) -> None:
            if watches:
                await watch(lambda: ask(client), show)
            show(await ask(client))

        with until_ctrl_c(watches):
            self.ask(shown)


def operator_verb(json_help: str | None = None) -> Callable[[F], F]:
    """`--json`, where there is help for it, and `--bootstrap`, as one argument `verb`. Put it next to the function."""

    def decorated(function: F) -> F:
        @functools.wraps(function)
        def call(*, bootstrap: list[str], as_json: bool = False, **options: Any) -> Any:
            return function(verb=OperatorVerb(bootstrap, as_json), **options)

        with_brokers = bootstrap_option(cast(F, call))
        return with_brokers if json_help is None else json_option(json_help)(with_brokers)

    return decorated


node_argument = click.argument("node", metavar="NODE", type=click.IntRange(min=0))


def watch_option(help_text: str, name: str = "watches") -> Callable[[F], F]:
    """`--watch`; its variable is called by the argument's name, too."""
    return option("--watch", "-w", name, is_flag=True, help=help_text)


def expected_version_option(help_text: str) -> Callable[[F], F]:
    """`--expected-version`."""
    return option("--expected-version", type=click.IntRange(min=0), metavar="N", help=help_text)


def wait_options(what: str) -> Callable[[F], F]:
    """`--wait/--no-wait` and `--timeout`."""

    def decorated(function: F) -> F:
        timeout = option(
            "--timeout", "timeout_s", type=float, default=WAIT_SECONDS, metavar="SECONDS", help="How long --wait waits."
        )
        return option("--wait/--no-wait", "waits", default=False, help=f"Return only when {what}.")(timeout(function))

    return decorated


yes_option = option("--yes", "-y", "yes", is_flag=True, help="Do it without asking.")


def agree(question: str, yes: bool) -> None:
    """Ask on standard input, unless `--yes` has answered already; raises `CommandFailed` after a no. Outside of a loop,
    where Ctrl-C ends it."""
    if yes:
        return
    is_person = sys.stdin.isatty()
    try:
        agreed = click.confirm(question, err=True)
    except click.Abort:
        if is_person:
            raise
        raise click.UsageError("nobody is there to ask: give --yes") from None
    finally:
        click.echo(err=True, nl=not is_person)  # the answer was not typed, and so its line has no end
    if not agreed:
        raise CommandFailed("nothing was changed")


class HowFar(NamedTuple):
    """`done` of `total`, where that can be said; `text` is what a person wants to know."""

    is_over: bool
    text: str
    done: float = 0
    total: float | None = None


async def once_ordered(ask: Callable[[], Awaitable[T]], ordered: str, look: str) -> T:
    """The first look after an order was taken. That it fails must not read as if the order had."""
    try:
        return await _outage(FIRST_LOOK_SECONDS).repeat(ask)
    except RaftlogError as error:
        raise CommandFailed(f"{ordered}; how far it is nobody says now ({error}): `{look}`") from None


async def watch(
    ask: Callable[[], Awaitable[T]],
    show: Callable[[T], object],
    is_over: Callable[[T], bool] | None = None,
    *,
    steady: Callable[[T], object] = lambda found: found,
    patience_s: float = PATIENCE_SECONDS,
) -> T:
    """Ask again and again, and show what is another than before, until it is over; without `is_over` until Ctrl-C.
    `steady` leaves out what changes all the time."""
    last: object = None
    while True:
        found = await _outage(patience_s).repeat(ask)
        now = steady(found)
        if now != last:
            show(found)
        if is_over is not None and is_over(found):
            return found
        last = now
        await asyncio.sleep(LOOK_SECONDS)


async def wait(ask: Callable[[], Awaitable[HowFar]], what: str, timeout_s: float, look: str) -> None:
    """Until it is over, with a bar on a terminal. Raises `CommandFailed`, which says how far it is, and that `look`
    shows more."""
    loop = asyncio.get_running_loop()
    until = loop.time() + timeout_s
    with _bar(what) as update, _telling_that_it_goes_on(what, look):
        while not (found := await _answered(ask, min(PATIENCE_SECONDS, until - loop.time()), what, look)).is_over:
            update(found)
            if loop.time() >= until:
                raise CommandFailed(
                    f"{what}: not over after {timeout_s:g} s ({found.text}); it goes on, and `{look}` shows how far"
                )
            await asyncio.sleep(min(LOOK_SECONDS, max(0.0, until - loop.time())))


async def _answered(ask: Callable[[], Awaitable[HowFar]], seconds: float, what: str, look: str) -> HowFar:
    try:
        return await _outage(seconds).repeat(ask)
    except Unavailable as error:
        raise CommandFailed(
            f"{what}: nobody says how far it is ({error}); it goes on, and `{look}` shows how far"
        ) from None


@contextmanager
def _telling_that_it_goes_on(what: str, look: str) -> Iterator[None]:
    """Ctrl-C ends the waiting, and not what was ordered."""
    try:
        yield
    except asyncio.CancelledError:
        click.echo(f"{what}: it goes on, and `{look}` shows how far", err=True)
        raise


def _outage(seconds: float) -> Outage:
    return Outage("answer of the brokers", seconds, LOOK_SECONDS, is_passing)


class _SaidOnce:
    """What stands for a bar where no terminal is: one line, once the wait has lasted a second."""

    def __init__(self, what: str) -> None:
        self._what, self._looks = what, 0

    def update(self, found: HowFar) -> None:
        self._looks += 1
        if self._looks == 2:  # they are `LOOK_SECONDS` apart
            click.echo(f"{self._what}: waiting: {found.text}", err=True)


@contextmanager
def _bar(what: str) -> Iterator[Callable[[HowFar], object]]:
    if not sys.stderr.isatty():
        yield _SaidOnce(what).update
        return
    with importlib.import_module("raftlog.cli.progress").far_bar(what) as update:
        yield update
