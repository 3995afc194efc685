"""`raftlog broker list` and `show`."""

from collections.abc import Sequence

import click
from rich.table import Table

from raftlog.cli.operating import operate
from raftlog.cli.options import bootstrap_option, json_option
from raftlog.cli.tables import age, bad, or_dash, properties, show, size, yes_no
from raftlog.values.brokers import BrokerDescription
from raftlog.values.value import to_json


@click.command()
@json_option("Print the brokers as a JSON array, as /v1/brokers has them.")
@bootstrap_option
def list_brokers(as_json: bool, bootstrap: list[str]) -> None:
    """List the brokers of the cluster: whether they answer, drain or are in maintenance, addresses, disks, releases."""
    rows = operate(bootstrap, lambda client: client.admin.brokers())
    if as_json:
        click.echo(to_json(rows))
        return
    show(_table(rows))


def _table(rows: Sequence[BrokerDescription]) -> Table:
    columns = ["node", "alive", "status", "HTTP", "RPC", "host", "version", "disk free", "up for"]
    has_problems = any(row.problem for row in rows)
    table = Table(*columns, *(["problem"] if has_problems else []), box=None, header_style="bold")
    for row in rows:
        cells = [
            str(row.node_id),
            yes_no(row.is_alive),
            status_of(row),
            or_dash(row.http_address),
            or_dash(row.rpc),
            or_dash(row.host),
            or_dash(row.version),
            _free(row),
            _uptime(row),
        ]
        table.add_row(*cells, *([bad(row.problem or "")] if has_problems else []))
    return table


def status_of(row: BrokerDescription) -> str:
    """In one word, or two."""
    status = row.membership_status
    if not row.in_maintenance:
        return status
    return "maintenance" if status == "active" else f"{status}, maintenance"


@click.command()
@click.argument("node", metavar="NODE", type=click.IntRange(min=0))
@json_option("Print the broker as JSON, as /v1/brokers/{id} has it.")
@bootstrap_option
def show_broker(node: int, as_json: bool, bootstrap: list[str]) -> None:
    """Show everything that is known of the broker NODE."""
    row = operate(bootstrap, lambda client: client.admin.broker(node))
    if as_json:
        click.echo(to_json(row))
        return
    show(
        properties(
            (
                ("node", row.node_id),
                ("alive", "yes" if row.is_alive else "no"),
                ("status", status_of(row)),
                ("problem", row.problem),
                ("HTTP", row.http_address),
                ("RPC", row.rpc),
                ("host", row.host),
                ("rack", row.rack),
                ("version", row.version),
                ("feature levels", f"{row.feature_levels.min} to {row.feature_levels.max}"),
                ("disk", row.disk_uuid),
                ("directory", row.disk_space[0].path if row.disk_space else None),
                ("disk free", _free(row)),
                ("starts", row.boot_epoch),
                ("up for", _uptime(row)),
                ("version of its row", row.row_version),
            )
        )
    )


def _free(row: BrokerDescription) -> str:
    """Free, and of how much where that is known."""
    disks = [disk for disk in row.disk_space if disk.free >= 0]
    if not disks:
        return "-"
    total = sum(disk.total for disk in disks)
    free = size(sum(disk.free for disk in disks))
    return f"{free} of {size(total)}" if total > 0 else free


def _uptime(row: BrokerDescription) -> str:
    return "-" if row.uptime_s is None else age(row.uptime_s)
