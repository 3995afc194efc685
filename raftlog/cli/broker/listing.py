"""`raftlog broker list` and `show`."""

from collections.abc import Sequence

from raftlog.cli.operator_verbs import OperatorVerb, node_argument, operator_command
from raftlog.cli.tables import Columns, format_duration, format_size, red, show, show_properties, table_of, yes_no
from raftlog.values.brokers import BrokerDescription


@operator_command("Print the brokers as a JSON array, as /v1/brokers has them.")
def list_brokers(verb: OperatorVerb) -> None:
    """List the brokers of the cluster: whether they answer, drain or are in maintenance, addresses, disks, releases."""
    verb.output(verb.ask(lambda client: client.admin.brokers()), _show_all)


def _show_all(rows: Sequence[BrokerDescription]) -> None:
    """Print a table of brokers; the columns for Kafka and for problems only if a broker has one."""
    columns = _BROKER
    if any(row.kafka_addresses for row in rows):
        columns = {**columns, "Kafka": _format_kafka}
    show(table_of(rows, columns | _PROBLEM if any(row.problem for row in rows) else columns))


def status_of(row: BrokerDescription) -> str:
    """Return the status of a broker in one or two words."""
    status = row.membership_status
    if not row.in_maintenance:
        return status
    return "maintenance" if status == "active" else f"{status}, maintenance"


@operator_command("Print the broker as JSON, as /v1/brokers/{id} has it.")
@node_argument
def show_broker(node: int, verb: OperatorVerb) -> None:
    """Show all details of the broker NODE."""
    verb.output(verb.ask(lambda client: client.admin.broker(node)), _show)


def _show(row: BrokerDescription) -> None:
    """Print all properties of one broker."""
    show_properties(
        ("node", row.node_id),
        ("alive", "yes" if row.is_alive else "no"),
        ("status", status_of(row)),
        ("problem", row.problem),
        ("HTTP", row.http_address),
        ("Kafka", _format_kafka(row)),
        ("RPC", row.rpc),
        ("host", row.host),
        ("rack", row.rack),
        ("version", row.version),
        ("feature levels", f"{row.feature_levels.min} to {row.feature_levels.max}"),
        ("disk", row.disk_uuid),
        ("directory", row.disk_space[0].path if row.disk_space else None),
        ("disk free", _format_free_space(row)),
        ("starts", row.boot_epoch),
        ("uptime", _format_uptime(row)),
        ("row version", row.row_version),
    )


def _format_kafka(row: BrokerDescription) -> str | None:
    """Return the address of the only Kafka listener, or all listeners with their names."""
    found = row.kafka_addresses
    texts = found.values() if len(found) == 1 else (f"{name}={address}" for name, address in found.items())
    return ", ".join(texts) or None


def _format_free_space(row: BrokerDescription) -> str:
    """Return the free space as text, with the total if it is known; a dash if the free space is unknown."""
    disks = [disk for disk in row.disk_space if disk.free >= 0]
    if not disks:
        return "-"
    total = sum(disk.total for disk in disks)
    free = format_size(sum(disk.free for disk in disks))
    return f"{free} of {format_size(total)}" if total > 0 else free


def _format_uptime(row: BrokerDescription) -> str:
    """Return the uptime as text; "-" if it is unknown."""
    return "-" if row.uptime_s is None else format_duration(row.uptime_s)


_BROKER: Columns[BrokerDescription] = {
    "node": lambda row: row.node_id,
    "alive": lambda row: yes_no(row.is_alive),
    "status": status_of,
    "HTTP": lambda row: row.http_address,
    "RPC": lambda row: row.rpc,
    "host": lambda row: row.host,
    "version": lambda row: row.version,
    "disk free": _format_free_space,
    "uptime": _format_uptime,
}
_PROBLEM: Columns[BrokerDescription] = {"problem": lambda row: red(row.problem or "")}
