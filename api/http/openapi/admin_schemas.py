"""The named schemas of what operators ask and order."""

from raftlog.api.http.admin.settings import CHANGES_MAX, TEXT_MAX
from raftlog.api.http.openapi.bounds import rows
from raftlog.api.http.openapi.parts import (
    ANY,
    BOOLEAN,
    INT64_MAX,
    NODE,
    OF_LOG,
    Json,
    array,
    integer,
    nullable,
    obj,
    string,
)
from raftlog.partitions.controller.machine.schema import REPLICAS_MAX

VERSION = integer(text="What `expected_version` and `If-Match` are compared with.")
_SETTING: Json = {"type": ["string", "integer", "boolean"]}
_REPLICA = obj({"node_id": NODE, "core": integer()})
_PLACE: Json = {"ns": string(const="kafka"), "topic": string(), "partition": NODE}
_PROGRESS: Json = {
    "bytes_left_to_move": nullable(integer()),
    "bytes_moved": nullable(integer()),
    "partition_size": nullable(integer()),
    "bytes_per_s": integer(),
    "reconfiguration_policy": string(),
    "reason": nullable(string("What is waited for.")),
}
_MAINTENANCE: Json = {
    "draining": BOOLEAN,
    "finished": BOOLEAN,
    "errors": BOOLEAN,
    "partitions": integer(text="That it still leads."),
    "eligible": integer(text="Of these, those that another replica can lead."),
    "transferring": integer(),
    "failed": integer(),
    "reasons": array(string()),
}

ADMIN_SCHEMAS: Json = {
    "Broker": obj(
        {
            "node_id": NODE,
            "host": string("Replicas of a partition are on distinct ones."),
            "rack": nullable(string()),
            "http_address": nullable(string()),
            "internal_rpc_address": nullable(string()),
            "internal_rpc_port": nullable(integer(0, 65_535)),
            "version": nullable(string()),
            "membership_status": string(enum=["active", "draining"]),
            "disk_uuid": nullable(string()),
            "is_alive": BOOLEAN,
            "disk_space": array(obj({"path": string(), "free": integer(-1), "total": integer(-1)}, optional=["total"])),
            "maintenance_status": obj(_MAINTENANCE),
            "boot_epoch": integer(text="How often it was started."),
            "uptime_s": nullable({"type": "number"}),
            "feature_levels": obj({"min": integer(), "max": integer()}),
            "row_version": integer(text="Of what the controller knows of it."),
            "problem": nullable(string()),
        },
    ),
    "Health": obj(
        {
            "is_healthy": BOOLEAN,
            "unhealthy_reasons": array(string()),
            "controller_id": integer(-1),
            "all_nodes": array(NODE),
            "nodes_down": array(NODE),
            "leaderless_partitions": array(string()),
            "leaderless_count": integer(),
            "under_replicated_partitions": array(string()),
            "under_replicated_count": integer(),
            "nodes_in_maintenance": array(NODE),
            "nodes_draining": array(NODE),
            "reconfigurations_count": integer(text="Partitions whose replicas are not where they shall be."),
            "lagging_partitions": array(string()),
            "lagging_count": integer(text="Partitions with a replica that lacks something committed at this moment."),
            "electing_partitions": array(string()),
            "electing_count": integer(text="Partitions without a leader at this moment."),
        }
    ),
    "NamespacePartition": obj(
        {
            "ns": string(const="kafka"),
            "topic": string(),
            "partition_id": NODE,
            "status": string(enum=["done", "failed"]),
            "leader_id": integer(-1),
            "replicas": array(
                obj(
                    {
                        "node_id": NODE,
                        "core": integer(),
                        "in_sync": BOOLEAN,
                        "entries_behind": nullable(integer()),
                        "bytes_behind": nullable(integer()),
                        "catch_up_bytes_per_s": {"type": "number"},
                        "problem": nullable(string()),
                    },
                    optional=["entries_behind", "bytes_behind", "catch_up_bytes_per_s"],
                )
            ),
            **OF_LOG,
            "version": nullable(VERSION),
            "problem": nullable(string()),
        }
    ),
    "NewRecovery": obj(
        {"accept_loss": BOOLEAN, "survivor": nullable(NODE)},
        optional=["survivor"],
    ),
    "Recovery": obj(
        {
            "topic": string(),
            "partition_id": NODE,
            "replicas": array(
                obj(
                    {
                        "node_id": NODE,
                        "reachable": BOOLEAN,
                        "has_replica": BOOLEAN,
                        "disk_uuid": string(format="uuid"),
                        "is_leader": BOOLEAN,
                        "term": integer(),
                        "last_index": integer(),
                        "last_term": integer(),
                        "log_start_offset": integer(),
                        "log_end_offset": integer(),
                        "voters": array(NODE),
                        "problem": nullable(string()),
                        "damaged": array(
                            obj({"first_offset": integer(), "end_offset": integer(), "problem": string()})
                        ),
                    },
                    optional=[
                        "has_replica",
                        "disk_uuid",
                        "is_leader",
                        "term",
                        "last_index",
                        "last_term",
                        "log_start_offset",
                        "log_end_offset",
                        "voters",
                        "problem",
                        "damaged",
                    ],
                )
            ),
            "replaced_disks": array(obj({"node_id": NODE, "disk_uuid": string(format="uuid")})),
            "survivor": nullable(NODE),
            "refusal": nullable(string()),
            "loss": array(string()),
            "done": BOOLEAN,
            "lost_offsets": array(array(integer())),
            "kept_in": array(string()),
        }
    ),
    "BrokerUuids": array(obj({"node_id": NODE, "uuid": nullable(string(format="uuid"))})),
    "BrokerNamed": obj({"node_id": NODE}),
    "Maintenance": obj({"node_id": NODE, **_MAINTENANCE, "version": VERSION}),
    "MaintenanceOrdered": obj({"node_id": NODE, "draining": BOOLEAN, "version": VERSION}),
    "Decommission": obj(
        {
            "finished": BOOLEAN,
            "replicas_left": integer(),
            "bytes_left": nullable(integer()),
            "allocation_failures": array(string("Such as `orders/0`: no place for its replica elsewhere.")),
            "partitions": array(obj({**_PLACE, "moving_to": nullable(_REPLICA), **_PROGRESS})),
            "reason": nullable(string("Why it does not go on, or what it waits for.")),
        }
    ),
    "Reconfiguration": obj(
        {
            **_PLACE,
            "previous_replicas": array(_REPLICA),
            "current_replicas": array(_REPLICA),
            "learners": array(NODE),
            **_PROGRESS,
            "version": VERSION,
        },
        text="`previous_replicas` vote now; `current_replicas` shall, and `learners` of them are being filled.",
    ),
    "Cancelled": array(obj({**_PLACE, "result": string(const="success")})),
    "Ordered": obj({"version": VERSION}),
    "NewReplicas": rows(obj({"node_id": NODE, "core": ANY}, optional=["core"]), 1, REPLICAS_MAX),
    "LocalReplica": obj(
        {
            **_PLACE,
            "core": integer(),
            "leader_id": integer(-1),
            "is_leader": BOOLEAN,
            "is_under_replicated": BOOLEAN,
            "replicas": array(_REPLICA),
            "bytes": integer(),
            "status": string(),
        }
    ),
    "LocalSummary": obj({"count": integer(), "leaderless": integer(), "under_replicated": integer()}),
    "ClusterPartitions": array(
        obj(
            {
                "ns": string(const="kafka"),
                "topic": string(),
                "partition_id": NODE,
                "leader_id": integer(-1),
                "replicas": array(_REPLICA),
                "disabled": BOOLEAN,
                "version": nullable(VERSION),
            }
        )
    ),
    "Balancer": obj(
        {
            "status": string(enum=["off", "ready", "in_progress", "stalled", "starting"]),
            "mode": string(enum=["off", "node_add", "continuous"]),
            "violations": obj({"unavailable_nodes": array(NODE), "over_disk_limit_nodes": array(NODE)}),
            "seconds_since_last_tick": nullable({"type": "number"}),
            "current_reassignments_count": integer(),
            "reasons": array(string()),
        }
    ),
    "ClusterSettings": {"type": "object", "additionalProperties": _SETTING},
    "NewClusterSettings": obj(
        {
            "upsert": {
                "type": "object",
                "additionalProperties": _SETTING | {"maxLength": TEXT_MAX, "minimum": 0, "maximum": INT64_MAX},
                "propertyNames": {"maxLength": TEXT_MAX},
                "maxProperties": CHANGES_MAX // 2,
                "examples": [{"balancer.mode": "off"}],
            },
            "remove": rows(string(maxLength=TEXT_MAX), 0, CHANGES_MAX // 2),
        },
        optional=["upsert", "remove"],
    ),
    "ClusterSettingsSchema": obj(
        {
            "properties": {
                "type": "object",
                "additionalProperties": obj(
                    {
                        "description": string(),
                        "type": string(enum=["string", "integer", "boolean"]),
                        "default": _SETTING,
                        "allowed": string(),
                        "nullable": BOOLEAN,
                        "needs_restart": BOOLEAN,
                    }
                ),
            }
        }
    ),
    "ClusterSettingsStatus": array(obj({"node_id": NODE, "config_version": nullable(VERSION), "restart": BOOLEAN})),
    "LogLevel": obj(
        {"name": string(), "level": string(), "expires": nullable(integer(text="Seconds until it is as before."))}
    ),
    "Features": obj(
        {
            "feature_level": integer(),
            "highest_known_by_all": integer(),
            "is_finished": BOOLEAN,
            "brokers": array(
                obj(
                    {
                        "node_id": NODE,
                        "level_min": integer(),
                        "level_max": integer(),
                        "version": nullable(string()),
                    }
                )
            ),
            "absent_seeds": array(NODE),
        }
    ),
    "NewFeatures": obj({"feature_level": integer(1, 1_000)}, optional=["feature_level"]),
}
