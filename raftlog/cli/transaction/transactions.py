"""`raftlog transaction list`, `describe` and `abort`."""

from typing import Final

import click

from raftlog.cli.operator_verbs import OperatorVerb, operator_command, watch_option
from raftlog.cli.options import option
from raftlog.cli.tables import Columns, escape_text, show, show_properties, table_of
from raftlog.values.transactions import TransactionDescription, TransactionSummary

_OPEN: Final = ("Ongoing", "PrepareCommit", "PrepareAbort")


@operator_command("Print a JSON array with an object for each transactional id.", name="list")
@option("--open", "only_open", is_flag=True, help="Only transactions that have not ended, the oldest first.")
def list_transactions(only_open: bool, verb: OperatorVerb) -> None:
    """List transactional ids with the states of their transactions."""
    found = verb.ask(lambda client: client.admin.transactions())
    if only_open:
        found = sorted((each for each in found if each.state in _OPEN), key=lambda each: -(each.age_ms or 0))
    verb.output(found, lambda rows: show(table_of(rows, _LISTED)) if rows else None)


@operator_command("Print it as a JSON object, with --watch a line for each change.")
@click.argument("transactional_id", metavar="ID")
@watch_option("Print it again whenever it changes, until Ctrl-C.")
def describe(transactional_id: str, watches: bool, verb: OperatorVerb) -> None:
    """Show the state of the transactional id ID, and the partitions and groups of its open transaction."""
    verb.show_or_watch(
        watches,
        lambda client: client.admin.transaction(transactional_id),
        lambda found: verb.output(found, _show),
    )


@operator_command()
@click.argument("transactional_id", metavar="ID")
def abort(transactional_id: str, verb: OperatorVerb) -> None:
    """Abort the open transaction of the transactional id ID; its producer is fenced and fails."""
    verb.ask(lambda client: client.admin.abort_transaction(transactional_id))
    click.echo(f"{escape_text(transactional_id)} has no open transaction")


def _show(found: TransactionDescription) -> None:
    """Print the properties of a transactional id."""
    show_properties(
        ("transactional id", escape_text(found.transactional_id)),
        ("state", found.state),
        ("producer id", found.producer_id),
        ("epoch", found.producer_epoch),
        ("timeout", f"{found.timeout_ms} ms"),
        ("age", "" if found.age_ms is None else f"{found.age_ms} ms"),
        ("coordinator", found.coordinator_id),
        ("partitions", ", ".join(str(each.place) for each in found.partitions)),
        ("groups", escape_text(", ".join(found.groups))),
    )


_LISTED: Final[Columns[TransactionSummary]] = {
    "transactional id": lambda each: escape_text(each.transactional_id),
    "state": lambda each: each.state,
    "producer id": lambda each: each.producer_id,
    "epoch": lambda each: each.producer_epoch,
    "age ms": lambda each: each.age_ms,
    "coordinator": lambda each: each.coordinator_id,
}
