"""Description of one broker for operators, from its row in the controller's state and the status that it reports."""

from typing import Any, Final

from msgspec import convert

from raftlog.partitions.controller.machine import RegisteredBroker as BrokerRow
from raftlog.values.brokers import BrokerDescription, DiskSpace, LevelRange, MaintenanceStatus

_DOWN: Final = "no answer"


def describe_broker(
    row: BrokerRow, in_maintenance: bool, status: dict[str, Any] | None, rack: str | None
) -> BrokerDescription:
    """Return the description of a broker; `status` is None if it does not answer."""
    host, _, port = row.addresses.rpc.rpartition(":")
    known = BrokerDescription(
        node_id=row.node_id,
        host=row.host,
        rack=rack,
        http_address=row.addresses.http or None,
        kafka_addresses=dict(row.addresses.kafka),
        internal_rpc_address=host.strip("[]") or None,
        internal_rpc_port=int(port) if port else None,
        membership_status="draining" if row.is_draining else "active",
        disk_uuid=str(row.disk_uuid),
        is_alive=False,
        maintenance_status=MaintenanceStatus(draining=in_maintenance),
        boot_epoch=row.boot_epoch,
        feature_levels=LevelRange(row.feature_level_min, row.feature_level_max),
        row_version=row.version,
        problem=_DOWN,
    )
    if status is None:
        return known
    return known.copy_with(
        is_alive=True,
        version=status["version"],
        disk_space=[convert(status["disk"], DiskSpace)],
        problem=status["problem"] if status["is_working"] else "it is starting or stopping",
        uptime_s=status["uptime_s"],
    )
