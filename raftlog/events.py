"""Events in a broker's log that programs can rely on: one event per change of state.

    event(logger, "leader_elected", group=group.name, term=term, why=why)

`EVENTS` lists them all, and docs/EVENTS.md has the same table. A name or field outside it is a defect and fails an
assertion. Names and fields are stable across releases; fields hold numbers, short words and names, never the contents
of records and no secrets. Every layer may write events. The number of lines of one name in a second is bounded by the
composition root (`raftlog.cli.serve.event_limit`)."""

import logging
from typing import Final, NamedTuple, Protocol

INFO, WARNING, ERROR = logging.INFO, logging.WARNING, logging.ERROR


class EventKind(NamedTuple):
    """One kind of event: level, names of its fields, and meaning."""

    level: int
    fields: frozenset[str]
    meaning: str


def _kind(level: int, fields: str, meaning: str) -> EventKind:
    """Return an event kind; `fields` are names separated by spaces."""
    return EventKind(level, frozenset(fields.split()), meaning)


EVENTS: Final[dict[str, EventKind]] = {
    # the process
    "process_started": _kind(INFO, "node version data_dir pid", "the broker opens its data directory"),
    "process_ready": _kind(INFO, "node cluster_id http kafka rpc", "the broker serves requests"),
    "process_stopping": _kind(INFO, "node", "the broker is stopping and transfers its leaderships"),
    "process_stopped": _kind(INFO, "node", "all accepted writes are durable, and the data directory is free"),
    "process_failed": _kind(ERROR, "node why", "the broker cannot continue; the process ends"),
    "log_level_changed": _kind(
        INFO, "modules to expires_s", "the level of a logger changed, for that long if `expires_s` is given"
    ),
    "disk_full": _kind(WARNING, "free_bytes min_free_bytes", "writes are refused: the disk has too little free space"),
    "disk_has_room": _kind(
        INFO, "free_bytes min_free_bytes", "the disk has enough free space again; writes are accepted"
    ),
    "descriptors_exhausted": _kind(
        WARNING, "why", "a file of a log could not be opened: no file descriptor is left; readiness is false"
    ),
    "aio_refused": _kind(WARNING, "why", "the kernel or a sandbox refuses Linux AIO; threads sync from now on"),
    "descriptors_available": _kind(INFO, "", "files of logs can be opened again"),
    "private_key_readable": _kind(
        WARNING, "path mode", "other users of this machine can read a private key: chmod 600 it"
    ),
    "tls_reloaded": _kind(
        INFO, "listener expires", "changed certificate files are used for new connections of the listener"
    ),
    "tls_reload_failed": _kind(
        ERROR, "listener why", "changed certificate files cannot be used; the listener keeps its certificate"
    ),
    "certificate_expires": _kind(
        WARNING, "listener expires", "the certificate of a listener expires soon or has expired: renew its files"
    ),
    "listener_insecure": _kind(
        WARNING,
        "listener address lacks",
        "other machines can reach a listener without TLS or logins, as --insecure allows",
    ),
    "tls_handshake_failed": _kind(
        INFO, "listener address why", "a client's TLS handshake failed, or a client uses TLS where there is none"
    ),
    "stalled": _kind(
        WARNING, "what", "the event loop or the disk stalled; the broker transfers its leaderships for a while"
    ),
    "loop_held": _kind(
        INFO, "step held_ms", "a step held the event loop for more than 5 ms and 1.5 times as long as ever before"
    ),
    "events_left_out": _kind(
        WARNING, "what count", "this number of events of one name exceeded the limit per second and was not written"
    ),
    # Raft groups
    "leader_elected": _kind(INFO, "group term why", "this broker became the leader of the Raft group"),
    "leadership_lost": _kind(INFO, "group term why leader", "this broker stopped leading the Raft group"),
    "transfer_failed": _kind(
        WARNING, "group target pause_s", "a leadership transfer to `target` failed; it is retried after the pause"
    ),
    "members_changed": _kind(
        INFO, "group voters learners", "the Raft configuration of a group led by this broker changes"
    ),
    "replica_added": _kind(
        INFO,
        "group how",
        "a replica was created on this broker: as an initial voter, or empty, to be filled by its leader",
    ),
    "replica_removed": _kind(INFO, "group why", "a replica on this broker is removed"),
    "replica_quarantined": _kind(
        ERROR, "group why", "damage was found in a replica on this broker; it may not campaign"
    ),
    "replica_stopped": _kind(
        ERROR,
        "group contradicts offending why",
        "a replica of the Raft group contradicts its leader or entries committed on this broker: the replica on this "
        "broker stays stopped until the broker restarts",
    ),
    "transaction_timed_out": _kind(
        WARNING, "transactional_id producer_id", "a transaction is aborted, and its producer fenced: its timeout passed"
    ),
    "log_unreadable": _kind(
        ERROR,
        "group why",
        "a replica holds an entry that only later releases can read, and applies nothing from there on: run a newer "
        "release",
    ),
    "replica_repaired": _kind(INFO, "group entries why", "a quarantined replica is repaired"),
    "log_compacted": _kind(
        INFO, "group compacted_to bytes_before bytes_after", "a replica on this broker was compacted below that offset"
    ),
    "producers_expired": _kind(
        INFO,
        "group count why",
        "a partition led by this broker expired idempotent producers: idle for producer.id.expiration.ms, or the "
        "least recently used of a full table",
    ),
    "catch_up_begun": _kind(INFO, "group leader", "a replica on this broker fetches missing data from the leader"),
    "catch_up_ended": _kind(
        INFO, "group leader bytes why", "the catch-up finished, or stopped for now with the reason in `why`"
    ),
    # the cluster, written by the controller's leader
    "controller_leader_changed": _kind(INFO, "leader term", "this broker sees another leader of the controller"),
    "cluster_founded": _kind(INFO, "node cluster_id seeds", "the seeds, or the broker alone, founded a cluster"),
    "seed_of_another_cluster": _kind(
        ERROR,
        "node address why",
        "this broker founded a cluster alone, and its seeds belong to another cluster; it is not ready",
    ),
    "broker_registered": _kind(INFO, "node disk boot_epoch http rpc", "a broker started and registered"),
    "broker_replaced": _kind(WARNING, "node old_disk disk", "a broker runs on a new disk, which replaces its old one"),
    "broker_removed": _kind(WARNING, "node disk", "a broker was permanently removed from the cluster"),
    "broker_draining": _kind(INFO, "node is_draining", "draining of a broker's replicas began or was cancelled"),
    "broker_maintenance": _kind(INFO, "node is_on", "maintenance mode of a broker was switched on or off"),
    "topic_created": _kind(INFO, "topic partitions replication_factor", "a topic was created"),
    "partitions_added": _kind(INFO, "topic partitions total", "partitions were added to a topic"),
    "topic_altered": _kind(INFO, "topic set unset", "settings of a topic changed"),
    "topic_deleted": _kind(INFO, "topic", "a topic was deleted"),
    "partition_assigned": _kind(
        INFO, "topic partition replicas", "a partition was assigned to these replicas, the preferred leader first"
    ),
    "cluster_config_changed": _kind(INFO, "set unset", "settings of the cluster changed"),
    "feature_level_raised": _kind(
        INFO, "feature_level", "the feature level was raised; brokers of earlier releases can no longer join"
    ),
    "authenticated": _kind(
        INFO, "principal address listener mechanism", "a client proved its identity on a connection"
    ),
    "authentication_failed": _kind(
        WARNING,
        "principal address listener user mechanism why",
        "a login was refused; `user` is the name that the client claimed",
    ),
    "user_changed": _kind(
        INFO, "principal address listener user change", "a user was created or deleted, or its credentials changed"
    ),
    "acls_changed": _kind(
        INFO,
        "principal address listener change count acls",
        "entries of access control were created or deleted; at most 20 are named",
    ),
    "authorization_denied": _kind(
        WARNING,
        "principal address listener operation resource_type resource count",
        "a request was refused, because an entry denies it or none allows it; `count` includes those of the last 10 s",
    ),
    "quotas_changed": _kind(INFO, "principal address listener entity set unset", "quotas of an entity changed"),
    # clients
    "kafka_connection_closed": _kind(
        WARNING,
        "listener address client_id why",
        "the broker closed a connection of a Kafka client, because of its input or because it was not read",
    ),
    # other brokers
    "node_connected": _kind(INFO, "node address", "a connection for Raft messages opened"),
    "node_lost": _kind(WARNING, "node why", "the connection for Raft messages was lost"),
    "entries_refused": _kind(WARNING, "group index node", "a follower refuses invalid entries of its leader"),
    "term_refused": _kind(
        WARNING,
        "group message_type why",
        "a message of another broker had a term too close to the highest possible one, which would end all elections; "
        "it was dropped",
    ),
    "contradiction_dropped": _kind(
        WARNING,
        "group contradicts offending why",
        "a replica outside the Raft configuration contradicts the group's leader or log; the message was dropped",
    ),
    "member_suspected": _kind(
        WARNING, "node by", "gossip: a broker does not answer probes; a hint, no leader is deposed for it"
    ),
    "member_dead": _kind(WARNING, "node by", "gossip: a suspected broker did not refute the suspicion in time"),
    "member_alive": _kind(INFO, "node incarnation", "gossip: a broker is alive, or alive again"),
    "member_left": _kind(INFO, "node", "gossip: a broker left as it stopped"),
    "member_conflict": _kind(ERROR, "node address other", "gossip: two processes claim the same node id"),
}


class Gate(Protocol):
    """Rate limit on the lines that are written."""

    def allows(self, name: str) -> bool:
        """Return whether another event of this name is written at its own level; otherwise it is written at debug."""
        ...


_gates: list[Gate] = []
"""The gate, if the composition root has set one."""


def set_gate(gate: Gate | None) -> None:
    """Set the function that decides whether an event is written (rate limit); None removes it."""
    _gates[:] = [] if gate is None else [gate]


def event(logger: logging.Logger, name: str, /, **fields: object) -> None:
    """Write one event. `fields` are those of `EVENTS[name]` whose values are known."""
    level, known, _ = EVENTS[name]
    assert fields.keys() <= known, f"{name} has no {sorted(fields.keys() - known)}"
    if not logger.isEnabledFor(level):
        return
    if any(not gate.allows(name) for gate in _gates):
        level = logging.DEBUG
    if logger.isEnabledFor(level):
        logger.log(level, name, extra=fields, stacklevel=2)
