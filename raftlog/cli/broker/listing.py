"""`raftlog broker list` and `show`."""

from collections.abc import Mapping, Sequence
from typing import Any

import click
import orjson
from rich.table import Table

from raftlog.cli.operating import operate
from raftlog.cli.options import bootstrap_option, json_option
from raftlog.cli.tables import age, bad, or_dash, properties, show, size, yes_no


@click.command()
@json_option("Print the brokers as a JSON array, as /v1/brokers has them.")
@bootstrap_option
def list_brokers(as_json: bool, bootstrap: list[str]) -> None:
    """List the brokers of the cluster: whether they answer, drain or are in maintenance, addresses, disks, releases."""
    rows = operate(bootstrap, lambda client: client.admin.brokers())
    if as_json:
        click.echo(orjson.dumps(rows))
        return
    show(_table(rows))


def _table(rows: Sequence[Mapping[str, Any]]) -> Table:
    columns = ["node", "alive", "status", "HTTP", "RPC", "host", "version", "disk free", "up for"]
    has_problems = any(row["problem"] for row in rows)
    table = Table(*columns, *(["problem"] if has_problems else []), box=None, header_style="bold")
    for row in rows:
        cells = [
            str(row["node_id"]),
            yes_no(row["is_alive"]),
            status_of(row),
            or_dash(row["http_address"]),
            or_dash(_rpc(row)),
            row["host"],
            or_dash(row["version"]),
            _free(row),
            _uptime(row),
        ]
        table.add_row(*cells, *([bad(row["problem"] or "")] if has_problems else []))
    return table


def status_of(row: Mapping[str, Any]) -> str:
    """In one word, or two."""
    status = str(row["membership_status"])
    maintenance = row.get("maintenance_status") or {}
    if not maintenance.get("draining"):
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
        click.echo(orjson.dumps(row))
        return
    show(
        properties(
            (
                ("node", row["node_id"]),
                ("alive", "yes" if row["is_alive"] else "no"),
                ("status", status_of(row)),
                ("problem", row["problem"]),
                ("HTTP", row["http_address"]),
                ("RPC", _rpc(row)),
                ("host", row["host"]),
                ("rack", row["rack"]),
                ("version", row["version"]),
                ("feature levels", row["feature_levels"] and "{min} to {max}".format(**row["feature_levels"])),
                ("disk", row["disk_uuid"]),
                ("directory", row["disk_space"][0]["path"] if row["disk_space"] else None),
                ("disk free", _free(row)),
                ("starts", row["boot_epoch"]),
                ("up for", _uptime(row)),
                ("version of its row", row["row_version"]),
            )
        )
    )


def _rpc(row: Mapping[str, Any]) -> str | None:
    host, port = row["internal_rpc_address"], row["internal_rpc_port"]
    return f"{host}:{port}" if host and port else None


def _free(row: Mapping[str, Any]) -> str:
    """Free, and of how much where that is known."""
    disks = [disk for disk in row["disk_space"] if disk["free"] >= 0]
    if not disks:
        return "-"
    total = sum(disk.get("total", -1) for disk in disks)
    free = size(sum(disk["free"] for disk in disks))
    return f"{free} of {size(total)}" if total > 0 else free


def _uptime(row: Mapping[str, Any]) -> str:
    return "-" if row["uptime_s"] is None else age(row["uptime_s"])
