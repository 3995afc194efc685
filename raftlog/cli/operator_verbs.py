"""Parts shared by operators' verbs: one client per verb, errors that name the next command, `--watch` and `--wait`.

An accepted request continues at the brokers, so a wait may stop at any time; it then names the command that shows the
progress."""

import asyncio
import functools
import importlib
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, TypeVar

import click

from raftlog.cli.options import F, NumberRange, bootstrap_option, json_option, option
from raftlog.cli.outcome import CommandFailed
from raftlog.client import BrokerClient, NotListening
from raftlog.client.addresses import BrokerAddresses
from raftlog.client.failures import is_temporary
from raftlog.client.outage import Outage
from raftlog.errors import (
    GroupNotEmpty,
    OutcomeUnknown,
    RaftlogError,
    TopicExists,
    Unavailable,
    UnknownBroker,
    UnknownGroup,
    UnknownPartition,
    UnknownTopic,
    UnknownTransaction,
    UnknownUser,
    UserExists,
    VersionConflict,
)
from raftlog.values.value import to_json

T = TypeVar("T")

POLL_SECONDS: Final = 1.0
RETRY_SECONDS: Final = 30.0
"""Time for which `--watch` retries while no broker answers."""
FIRST_STATUS_SECONDS: Final = 5.0
WAIT_SECONDS: Final = 3_600
_HINTS: Final[tuple[tuple[type[RaftlogError], str], ...]] = (
    (TopicExists, "give --if-not-exists to accept the existing topic"),
    (UnknownBroker, "`raftlog broker list` shows the brokers"),
    (UnknownTopic, "`raftlog topic list` shows the topics"),
    (UnknownPartition, "`raftlog partition list` shows the partitions"),
    (UnknownGroup, "`raftlog group list` shows the groups"),
    (UnknownTransaction, "`raftlog transaction list` shows the transactional ids"),
    (UnknownUser, "`raftlog user list` shows the users"),
    (UserExists, "`raftlog user password` changes its password"),
    (GroupNotEmpty, "`raftlog group describe` shows the members"),
    (VersionConflict, "repeat the command with the present version"),
    (NotListening, "start the broker, or name other brokers with `--bootstrap`"),
    (OutcomeUnknown, "check whether it happened; a command that sets a state can be repeated"),
    (Unavailable, "`raftlog cluster health` shows the problem"),
)


def operate(bootstrap: BrokerAddresses, work: Callable[[BrokerClient], Awaitable[T]]) -> T:
    """Run `work` with a client, and return its result. Errors name the command to run next."""

    async def run_with_client() -> T:
        """Execute `work` with a new client."""
        async with BrokerClient(bootstrap) as client:
            return await work(client)

    with _add_hints_to_errors():
        return asyncio.run(run_with_client())


@contextmanager
def until_ctrl_c(watches: bool) -> Iterator[None]:
    """Convert Ctrl-C to exit code 0 if `watches` is true: a watch has no other end."""
    try:
        yield
    except KeyboardInterrupt:
        if not watches:
            raise
        raise click.exceptions.Exit(0) from None


@contextmanager
def _add_hints_to_errors() -> Iterator[None]:
    """Append to an error that the block raises the command to run next, if there is one."""
    try:
        yield
    except RaftlogError as error:
        hint = _find_hint(error)
        if hint is not None:
            error.args = (f"{error}; {hint}",)
        raise


def _find_hint(error: RaftlogError) -> str | None:
    """Return the next step after an error; None if there is no hint for it."""
    if "there is nothing at" in str(error):  # no such path
        return (
            "the broker may run an older release (`raftlog cluster info`); name one of this release with `--bootstrap`"
        )
    return next((hint for kind, hint in _HINTS if isinstance(error, kind)), None)


class OperatorVerb(NamedTuple):
    """Common arguments of operators' verbs: the addresses of brokers, and whether to print JSON."""

    bootstrap: BrokerAddresses
    as_json: bool

    def ask(self, work: Callable[[BrokerClient], Awaitable[T]]) -> T:
        """Run `work` with a client of the given brokers, and return its result; errors as in `operate`."""
        return operate(self.bootstrap, work)

    def output(self, value: T, words: str | Callable[[T], object]) -> None:
        """Print a value as JSON, or for people: the text `words`, or the output of the function `words`."""
        if self.as_json:
            click.echo(to_json(value))
        elif isinstance(words, str):
            click.echo(words)
        else:
            words(value)

    def show_or_watch(
        self, watches: bool, ask: Callable[[BrokerClient], Awaitable[T]], show: Callable[[T], object]
    ) -> None:
        """Show the result of `ask`; with `watches` again after each change, until Ctrl-C."""

        async def show_result(client: BrokerClient) -> None:
            """Print the answer once, or repeatedly."""
            if watches:
                await watch(lambda: ask(client), show)
            show(await ask(client))

        with until_ctrl_c(watches):
            self.ask(show_result)


def operator_command(
    json_help: str | None = None, *, name: str | None = None, group: click.Group | None = None
) -> Callable[[Callable[..., object]], click.Command]:
    """Return a decorator that makes a command of a function with the parameter `verb`.

    The command has `--bootstrap`, and if `json_help` is given `--json`. It is added to `group`, if one is given."""

    def decorate(function: Callable[..., object]) -> click.Command:
        """Return the command that calls `function` with an `OperatorVerb` and its options."""

        @functools.wraps(function)
        def call(*, bootstrap: BrokerAddresses, as_json: bool = False, **options: Any) -> object:
            """Call the function with a verb for the brokers at `bootstrap`."""
            return function(verb=OperatorVerb(bootstrap, as_json), **options)

        command = (click.command if group is None else group.command)(name)(call)
        return bootstrap_option(command if json_help is None else json_option(json_help)(command))

    return decorate


node_argument = click.argument("node", metavar="NODE", type=click.IntRange(min=0))


def watch_option(help_text: str, name: str = "watches") -> Callable[[F], F]:
    """Return the option `--watch`; `name` is the parameter of the command that gets its value."""
    return option("--watch", "-w", name, is_flag=True, help=help_text)


def expected_version_option(help_text: str) -> Callable[[F], F]:
    """Return the option `--expected-version`."""
    return option("--expected-version", type=click.IntRange(min=0), metavar="N", help=help_text)


def wait_options(operation: str) -> Callable[[F], F]:
    """Return the options `--wait/--no-wait` and `--timeout`."""

    def decorate(function: F) -> F:
        """Add the options `--wait` and `--timeout` to the function."""
        timeout = option(
            "--timeout",
            "timeout_s",
            type=NumberRange(min=0),
            default=WAIT_SECONDS,
            metavar="SECONDS",
            help="Timeout of --wait, in seconds.",
        )
        return option("--wait/--no-wait", "waits", default=False, help=f"Return only when {operation}.")(
            timeout(function)
        )

    return decorate


yes_option = option("--yes", "-y", "yes", is_flag=True, help="Do not ask for confirmation.")


def confirm(question: str, yes: bool) -> None:
    """Ask on standard input, unless `--yes` is given; raise `CommandFailed` if the answer is no.

    Called outside of an event loop, so that Ctrl-C ends it."""
    if yes:
        return
    is_person = sys.stdin.isatty()
    try:
        confirmed = click.confirm(question, err=True)
    except click.Abort:
        if is_person:
            raise
        raise click.UsageError("standard input gave no answer: give --yes to skip the question") from None
    finally:
        click.echo(err=True, nl=not is_person)  # a piped answer leaves the question without a newline
    if not confirmed:
        raise CommandFailed("nothing was changed")


class WaitProgress(NamedTuple):
    """Progress of an operation: `done` of `total`, which is None if it is unknown; `text` is shown to the user."""

    has_ended: bool
    text: str
    done: float = 0
    total: float | None = None


async def first_status(ask: Callable[[], Awaitable[T]], accepted: str, status_command: str) -> T:
    """Return the first state after an accepted request; an error here states that the request was accepted."""
    try:
        return await _make_outage(FIRST_STATUS_SECONDS).repeat(ask)
    except RaftlogError as error:
        raise CommandFailed(
            f"{accepted}, but its progress is not available now ({error}); check it with `{status_command}`"
        ) from None


async def watch(
    ask: Callable[[], Awaitable[T]],
    show: Callable[[T], object],
    has_ended: Callable[[T], bool] | None = None,
    *,
    steady: Callable[[T], object] = lambda found: found,
    retry_s: float = RETRY_SECONDS,
) -> T:
    """Poll, and show each changed result, until `has_ended`; without `has_ended` until Ctrl-C.

    `steady` returns a result without the parts that change all the time; only these results are compared."""
    last: object = None
    while True:
        found = await _make_outage(retry_s).repeat(ask)
        now = steady(found)
        if now != last:
            show(found)
        if has_ended is not None and has_ended(found):
            return found
        last = now
        await asyncio.sleep(POLL_SECONDS)


async def wait(
    read_progress: Callable[[], Awaitable[WaitProgress]], operation: str, timeout_s: float, status_command: str
) -> None:
    """Wait until a requested operation ends, with a progress bar on a terminal.

    Raises `CommandFailed` with the progress so far and the command `status_command`, which shows more."""
    loop = asyncio.get_running_loop()
    until = loop.time() + timeout_s
    with _progress_display(operation) as update, _notice_on_interrupt(operation, status_command):
        while not (
            found := await _read_progress_with_retries(
                read_progress, min(RETRY_SECONDS, until - loop.time()), operation, status_command
            )
        ).has_ended:
            update(found)
            if loop.time() >= until:
                raise CommandFailed(
                    f"{operation}: not finished after {timeout_s:g} s ({found.text}); it continues, "
                    f"and `{status_command}` shows its progress"
                )
            await asyncio.sleep(min(POLL_SECONDS, max(0.0, until - loop.time())))


async def _read_progress_with_retries(
    read_progress: Callable[[], Awaitable[WaitProgress]], seconds: float, operation: str, status_command: str
) -> WaitProgress:
    """Return the progress, with retries for `seconds`. Raises `CommandFailed`: the operation itself continues."""
    try:
        return await _make_outage(seconds).repeat(read_progress)
    except Unavailable as error:
        raise CommandFailed(
            f"{operation}: its progress is not available ({error}); "
            f"it continues, and `{status_command}` shows its progress"
        ) from None


@contextmanager
def _notice_on_interrupt(operation: str, status_command: str) -> Iterator[None]:
    """Print on Ctrl-C that the operation continues: Ctrl-C ends only the wait."""
    try:
        yield
    except asyncio.CancelledError:
        click.echo(f"{operation}: it continues, and `{status_command}` shows its progress", err=True)
        raise


def _make_outage(seconds: float) -> Outage:
    """Return the policy for requests that get no answer: repeat them for `seconds`."""
    return Outage("answer of the brokers", seconds, POLL_SECONDS, is_temporary)


class _WaitLine:
    """Replacement for a progress bar without a terminal: one line, after the first second."""

    def __init__(self, what: str) -> None:
        self._what, self._updates = what, 0

    def update(self, found: WaitProgress) -> None:
        """Print the progress once, at the second call."""
        self._updates += 1
        if self._updates == 2:  # they are `POLL_SECONDS` apart
            click.echo(f"{self._what}: waiting: {found.text}", err=True)


@contextmanager
def _progress_display(label: str) -> Iterator[Callable[[WaitProgress], object]]:
    """Yield a function that shows progress: a bar on a terminal, else one line after the first second."""
    if not sys.stderr.isatty():
        yield _WaitLine(label).update
        return
    with importlib.import_module("raftlog.cli.progress").progress_bar(label) as update:
        yield update
