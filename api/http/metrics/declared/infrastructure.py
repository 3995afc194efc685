"""Declarations of metrics of disks, of traffic between brokers, and of the process."""

from typing import Final

from raftlog.api.http.metrics.declared.declaration import counter, gauge, info

DISK: Final = (
    gauge("sync_operations_waiting", "operations that wait for the next journal sync; a rise: the disk stalls"),
    info("sync_method_info", "`aio` or `threads`", "method"),
    gauge("journal_pending_bytes", "bytes that wait to be journaled; limit 16 MiB"),
    gauge("journal_live_bytes", "bytes that a recovery would read; limit 1 GiB"),
    counter("checkpoints_total", "journal checkpoints"),
    counter("compaction_bytes_total", "bytes that compaction read and wrote"),
    gauge("compaction_running", "1 while it runs"),
    gauge("compaction_saved_bytes", "bytes saved by the last compaction of each log here"),
    counter("catch_up_bytes_total", "bytes fetched by replicas here (in), and sent to others (out)", "direction"),
    gauge("log_bytes", "size of all logs here"),
    gauge("disk_free_bytes", "free space of the data directory's file system; NaN: unknown"),
    gauge("disk_total_bytes", "its size; NaN: unknown"),
    gauge("disk_full", "1 while records are refused because the disk is full"),
)
RPC: Final = (
    counter(
        "rpc_messages_total",
        "messages between brokers ([counting](REPLICATION.md#message-counts))",
        "direction",
        "kind",
    ),
    counter("rpc_bytes_total", "their bytes", "direction", "channel"),
    counter("rpc_writes_total", "writes to sockets", "channel"),
    gauge("rpc_connected", "1 while connected", "node", "channel"),
    counter("rpc_connections_total", "connections opened; all but the first are reconnects", "node", "channel"),
    gauge("rpc_queued_bytes", "bytes that wait to be sent; limit 32 MiB", "node", "channel"),
    counter("rpc_messages_dropped_total", "Raft messages dropped without a connection", "node", "channel"),
    counter("rpc_handshakes_refused_total", "connections closed because the peer is not in the cluster"),
    counter("rpc_messages_refused_total", "refused Raft messages: unknown group, malformed, or queue full"),
    counter("rpc_messages_from_outsiders_total", "dropped Raft messages of processes that are not in the cluster"),
)
GOSSIP: Final = (
    gauge("gossip_members", "brokers in gossip's view", "state"),
    counter("gossip_datagrams_total", "datagrams", "direction"),
    counter("gossip_streams_total", "streams", "direction"),
    counter("gossip_bytes_total", "bytes of both", "direction"),
    counter("gossip_refused_total", "dropped gossip", "reason"),
    counter("gossip_streams_failed_total", "streams started here that failed"),
    counter("gossip_probes_total", "probes"),
    counter("gossip_probes_failed_total", "probes without an answer"),
    counter("gossip_suspicions_total", "suspicions started here"),
    counter("gossip_refutations_total", "refutations sent by this broker; a rise: it answers late"),
    counter("gossip_syncs_total", "digest exchanges"),
    gauge("gossip_broadcasts_waiting", "claims that wait to be sent"),
    gauge("gossip_awareness", "Lifeguard health score of this broker; 0 is healthy"),
)
