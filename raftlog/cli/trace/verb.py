"""`raftlog trace`: sends a record with tracing, or reads traces that the brokers keep, and prints them."""

import asyncio
import re
import secrets
from collections.abc import Sequence
from typing import Any

import click

from raftlog.cli.operator_verbs import OperatorVerb, operator_command
from raftlog.cli.options import option, parse_partition
from raftlog.cli.outcome import CommandFailed
from raftlog.cli.tables import escape_text
from raftlog.cli.trace.waterfall import format_waterfall
from raftlog.client import BrokerClient
from raftlog.client.addresses import BrokerAddresses
from raftlog.errors import Unavailable
from raftlog.values.traces import BrokerTrace, BrokerTraces


def _check_id(_context: click.Context, _parameter: click.Parameter, text: str | None) -> str | None:
    """Return the trace id unchanged, or None if it was omitted. Raises `BadParameter` for an invalid trace id."""
    if text is not None and re.fullmatch("[0-9a-f]{32}", text) is None:
        raise click.BadParameter("a trace id has 32 lower-case hexadecimal digits")
    return text


@operator_command("Print an array of traces, each an array of the parts that brokers measured.")
@click.argument("partition", metavar="[TOPIC/PARTITION]", required=False)
@option("--slow", type=click.IntRange(1, 100), metavar="N", help="Show the N slowest traces that the brokers keep.")
@option("--id", "trace_id", callback=_check_id, metavar="TRACE_ID", help="Show this trace.")
@option("--value", default="raftlog trace", help="Value of the record that is sent.")
def trace(partition: str | None, slow: int | None, trace_id: str | None, value: str, verb: OperatorVerb) -> None:
    """Show where the time of produce requests goes: append one record to TOPIC/PARTITION, or read kept traces.

    The brokers have to run with `--trace`; 0 traces only requests that ask for it, such as this one."""
    if sum(each is not None for each in (partition, slow, trace_id)) != 1:
        raise click.UsageError("give TOPIC/PARTITION, or --slow N, or --id TRACE_ID")
    target = None if partition is None else parse_partition(partition)

    async def work(client: BrokerClient) -> list[list[BrokerTrace]]:
        """Produce a traced record if a target is given, else find the wanted traces; return the parts of each trace."""
        addresses = [broker.http for broker in await client.brokers() if broker.http]
        wanted = trace_id
        if target is not None:
            if not (await client.admin.traces(secrets.token_hex(16))).is_on:
                raise CommandFailed(
                    "the broker does not trace requests; start it with `--trace 0`, which traces only requests that "
                    "ask for it"
                )
            wanted = secrets.token_hex(16)
            context = f"00-{wanted}-{secrets.token_hex(8)}-01"
            await client.admin.produce_traced(*target, value, context)
        answers = await _collect(verb.bootstrap, addresses, wanted)
        if slow is None:
            return _join(answers)[:1]
        # A broker lists its slowest parts alone: the parts of a slow trace on other brokers may be fast.
        return [await _complete(verb.bootstrap, addresses, parts) for parts in _join(answers)[:slow]]

    found = verb.ask(work)
    if not found:
        raise CommandFailed("no broker keeps such a trace; brokers trace with `--trace`, and keep a bounded number")
    verb.output(found, _show)


async def _collect(
    bootstrap: BrokerAddresses, addresses: Sequence[str], trace_id: str | None, *, is_quiet: bool = False
) -> list[BrokerTraces]:
    """Return the traces of all brokers that answer; the others are named on stderr, unless `is_quiet`."""

    async def read_traces(address: str) -> BrokerTraces:
        """Return the parts of the trace that one broker recorded."""
        async with BrokerClient(bootstrap.with_addresses([address])) as client:
            return await client.admin.traces(trace_id)

    answers: list[Any] = await asyncio.gather(*map(read_traces, addresses), return_exceptions=True)
    for address, answer in zip(addresses, answers, strict=True):
        if isinstance(answer, Unavailable):
            if not is_quiet:
                click.echo(f"{address} does not answer: {answer}", err=True)
        elif isinstance(answer, BaseException):
            raise answer
    return [answer for answer in answers if isinstance(answer, BrokerTraces)]


async def _complete(
    bootstrap: BrokerAddresses, addresses: Sequence[str], parts: list[BrokerTrace]
) -> list[BrokerTrace]:
    """Return all parts of the trace of these parts, or these if it is no longer kept."""
    found = _join(await _collect(bootstrap, addresses, parts[0].trace_id, is_quiet=True))
    return found[0] if found else parts


def _join(answers: Sequence[BrokerTraces]) -> list[list[BrokerTrace]]:
    """Return the brokers' parts grouped by trace, the slowest trace first."""
    parts: dict[str, list[BrokerTrace]] = {}
    for answer in answers:
        for each in answer.traces:
            parts.setdefault(each.trace_id, []).append(each)
    return sorted(parts.values(), key=lambda some: -max(each.spans[0].duration_us for each in some))


def _show(found: Sequence[Sequence[BrokerTrace]]) -> None:
    """Print traces as waterfalls."""
    for number, parts in enumerate(found):
        if number:
            click.echo()
        click.echo(f"trace {parts[0].trace_id}")
        for line in format_waterfall(parts):
            click.echo(escape_text(line))
