"""What happens to a broker, as lines of its log that programs can rely on: one event per change of state.

    event(logger, "leader_elected", group=group.name, term=term, why=why)

`EVENTS` is the whole list, and docs/EVENTS.md has the same table. A name or a field that is not in it is a defect,
and an assertion says so. Names and fields stay what they are from release to release; fields hold numbers, short words
and names, never the contents of records and nothing secret. Every layer may call this. How many lines of one name are
written in a second is bounded where they are written (`raftlog.cli.serve.event_limit`).
"""

import logging
from typing import Final, NamedTuple, Protocol

INFO, WARNING, ERROR = logging.INFO, logging.WARNING, logging.ERROR


class EventKind(NamedTuple):
    """One kind of event: how severe, with which fields, and what it means."""

    level: int
    fields: frozenset[str]
    meaning: str


def _kind(level: int, fields: str, meaning: str) -> EventKind:
    return EventKind(level, frozenset(fields.split()), meaning)


EVENTS: Final[dict[str, EventKind]] = {
    # the process
    "process_started": _kind(INFO, "node version data_dir pid", "the broker opens its data directory"),
    "process_ready": _kind(INFO, "node cluster_id http rpc", "it serves"),
    "process_stopping": _kind(INFO, "node", "it was told to stop, and hands its leaderships over"),
    "process_stopped": _kind(INFO, "node", "everything it took is durable, and the directory is free"),
    "process_failed": _kind(ERROR, "node why", "it cannot go on; the process ends"),
    "log_level_changed": _kind(INFO, "modules to expires_s", "a logger logs more or less, for so long if it is said"),
    "disk_full": _kind(WARNING, "free_bytes min_free_bytes", "no records are taken for lack of room"),
    "disk_has_room": _kind(INFO, "free_bytes min_free_bytes", "there is room again"),
    "descriptors_exhausted": _kind(
        WARNING, "why", "a file of a log could not be opened for want of file descriptors; readiness is false"
    ),
    "descriptors_available": _kind(INFO, "", "files of logs can be opened again"),
    "private_key_readable": _kind(
        WARNING, "path mode", "other users of this machine can read the private key of `--rpc-key`: chmod 600 it"
    ),
    "stalled": _kind(WARNING, "what", "its loop or disk stood still; it leads nothing for a while, if others can"),
    "events_left_out": _kind(WARNING, "what count", "so many of one name in a second were not written"),
    # groups
    "leader_elected": _kind(INFO, "group term why", "this broker leads the group"),
    "leadership_lost": _kind(INFO, "group term why leader", "it does not lead it any more"),
    "transfer_failed": _kind(
        WARNING, "group target pause_s", "a broker did not take a group over; the next try is later"
    ),
    "members_changed": _kind(INFO, "group voters learners", "a group led here is to have other members"),
    "replica_added": _kind(
        INFO, "group how", "a replica begins here: as one of the first, or empty, for its leader to fill"
    ),
    "replica_removed": _kind(INFO, "group why", "a replica here goes"),
    "replica_quarantined": _kind(ERROR, "group why", "damage was found in a replica here"),
    "replica_stopped": _kind(
        ERROR,
        "group contradicts offending why",
        "a member of the group contradicts its leader or what is committed here: the replica takes part in nothing "
        "until the next start of the broker",
    ),
    "log_unreadable": _kind(
        ERROR,
        "group why",
        "a replica holds something that this release does not know, as later ones write it, and applies nothing more "
        "of it: run a newer release",
    ),
    "replica_repaired": _kind(INFO, "group entries why", "it is sound again"),
    "log_compacted": _kind(
        INFO, "group compacted_to bytes_before bytes_after", "a replica here was compacted below that offset"
    ),
    "producers_expired": _kind(
        INFO,
        "group count why",
        "a partition led here expires the state of idempotent producers: silent for producer.id.expiration.ms, or the "
        "least recently used ones of a full table",
    ),
    "catch_up_begun": _kind(INFO, "group leader", "a replica here fetches what it lacks"),
    "catch_up_ended": _kind(INFO, "group leader bytes why", "it has that, or stopped for now"),
    # the cluster, written by the controller's leader
    "controller_leader_changed": _kind(INFO, "leader term", "another broker leads the controller, as seen here"),
    "cluster_founded": _kind(
        INFO, "node cluster_id seeds", "so many seeds, or the broker alone, are a cluster from now on"
    ),
    "seed_of_another_cluster": _kind(
        ERROR,
        "node address why",
        "this broker founded a cluster alone, and its seeds belong to another: it is not ready",
    ),
    "broker_registered": _kind(INFO, "node disk boot_epoch http rpc", "a broker started"),
    "broker_replaced": _kind(WARNING, "node old_disk disk", "a new disk took the place of a broker's old one"),
    "broker_removed": _kind(WARNING, "node disk", "a broker left the cluster for good"),
    "broker_draining": _kind(INFO, "node is_draining", "its replicas are to move elsewhere, or not any more"),
    "broker_maintenance": _kind(INFO, "node is_on", "it is to lead nothing, or may lead again"),
    "topic_created": _kind(INFO, "topic partitions replication_factor", "a topic is there"),
    "topic_altered": _kind(INFO, "topic set unset", "settings of a topic changed"),
    "topic_deleted": _kind(INFO, "topic", "a topic is gone"),
    "partition_assigned": _kind(INFO, "topic partition replicas", "it is to have these, the preferred leader first"),
    "cluster_config_changed": _kind(INFO, "set unset", "settings of the cluster changed"),
    "feature_level_raised": _kind(INFO, "feature_level", "brokers of earlier releases cannot join any more"),
    # other brokers
    "node_connected": _kind(INFO, "node address", "a connection for Raft messages is there"),
    "node_lost": _kind(WARNING, "node why", "there is none any more"),
    "term_refused": _kind(
        WARNING,
        "group message_type why",
        "a message of another broker had a term so near to the last one that taking it would end all elections; it was "
        "dropped",
    ),
    "contradiction_dropped": _kind(
        WARNING,
        "group contradicts offending why",
        "a replica that does not belong to the group contradicts its leader or its log; the message was dropped",
    ),
    "member_suspected": _kind(WARNING, "node by", "gossip: it does not answer; a hint, which deposes nobody"),
    "member_dead": _kind(WARNING, "node by", "gossip: it did not refute that in time"),
    "member_alive": _kind(INFO, "node incarnation", "gossip: it is there, or there again"),
    "member_left": _kind(INFO, "node", "gossip: it said goodbye"),
    "member_conflict": _kind(ERROR, "node address other", "gossip: two processes say that they are this node"),
}


class Gate(Protocol):
    """Whoever bounds how many lines there are."""

    def lets_through(self, name: str) -> bool:
        """Whether one more event of this name is written at its level; otherwise only at level debug."""
        ...


_gates: list[Gate] = []
"""At most one, set where lines are written."""


def set_gate(gate: Gate | None) -> None:
    """From now on events go through this one; for the composition root."""
    _gates[:] = [] if gate is None else [gate]


def event(logger: logging.Logger, name: str, /, **fields: object) -> None:
    """Write one event. `fields` are those of `EVENTS[name]`; all of them, or those that are known."""
    level, known, _ = EVENTS[name]
    assert fields.keys() <= known, f"{name} has no {sorted(fields.keys() - known)}"
    if not logger.isEnabledFor(level):
        return
    if any(not gate.lets_through(name) for gate in _gates):
        level = logging.DEBUG
    if logger.isEnabledFor(level):
        logger.log(level, name, extra=fields, stacklevel=2)
