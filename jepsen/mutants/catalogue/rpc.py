"""Mutants of connections between brokers: proof of identity, handshakes, permitted messages, outcomes of requests."""

from typing import Final

from jepsen.mutants.mutant import Mutant

_PROOFS: Final = ("tests/rpc/test_authentication.py", "tests/rpc/test_strangers.py")
_CERTIFICATES: Final = (*_PROOFS, "tests/rpc/test_tls.py")
_HANDSHAKE: Final = ("tests/rpc/test_handshake.py",)
_PROBES: Final = ("tests/rpc/test_probes.py", "tests/rpc/test_strangers.py")
_REQUEST_SERVER: Final = ("tests/rpc/test_request_server.py",)
_BOUNDS: Final = ("tests/rpc/test_bounds.py",)
_CALLS: Final = ("tests/rpc/test_calls.py", "tests/rpc/test_transport.py")
_SECRET: Final = ("tests/test_cluster_secret.py",)
_GOSSIP: Final = ("tests/membership/test_authentication.py", "tests/membership/test_replay.py")


def _rpc(name: str, place: str, old: str, new: str, tests: tuple[str, ...], equivalent: str = "") -> Mutant:
    """Return a mutant at `place`, which is module:function, of `runtime/rpc` unless it has a slash."""
    module, _, function = place.partition(":")
    file = module if "/" in module else f"runtime/rpc/{module}"
    return Mutant(f"rpc-{name}", f"raftlog/{file.removeprefix('/')}.py", function, old, new, tests, equivalent)


MUTANTS: Final[tuple[Mutant, ...]] = (
    # proofs
    _rpc("any-proof", "authentication:Credentials.accepts", "return any(matches)", "return True", _PROOFS),
    _rpc(
        "reflected-proof",
        "authentication:_compute_mac",
        "(_PURPOSE, side.value, transcript, refusal)",
        "(_PURPOSE, transcript, refusal)",
        _PROOFS,
    ),
    _rpc(
        "refusal-without-proof",
        "authentication:_compute_mac",
        "(_PURPOSE, side.value, transcript, refusal)",
        "(_PURPOSE, side.value, transcript)",
        _PROOFS,
    ),
    _rpc(
        "replayed-proof",
        "authentication:transcript_of",
        " + connector_hello + acceptor_hello",
        " + connector_hello",
        _PROOFS,
    ),
    _rpc(
        "no-proof-at-all",
        "authentication:authenticate",
        "    if certified:\n        return None",
        "    if True:\n        return None",
        _PROOFS,
    ),
    _rpc(
        "certificate-of-another-node",
        "authentication:authenticate",
        "if certified and node not in certified:",
        "if False:",
        _CERTIFICATES,
    ),
    _rpc(
        "certificate-in-place-of-the-secret",
        "authentication:authenticate",
        "            return None\n        return HandshakeRefusal(\n            Reason.UNAUTHENTICATED,",
        "            return None\n        return None if certified else "
        "HandshakeRefusal(\n            Reason.UNAUTHENTICATED,",
        _CERTIFICATES,
    ),
    _rpc(
        "any-name-in-a-certificate",
        "authentication:certified_nodes",
        'kind == "URI" and ',
        "",
        _CERTIFICATES,
    ),
    _rpc(
        "served-before-the-proof",
        "accepted_connection:AcceptedConnection._introduce",
        "self.connection.write(encode_hello(local_body))",
        "self.connection.write(encode_hello(local_body))\n        self._begin(remote, is_noted=True)",
        _PROOFS,
    ),
    _rpc(
        "refused-and-served",
        "accepted_connection:AcceptedConnection._verify",
        "            self._refuse(refusal, own_proof)\n            return",
        "            self._refuse(refusal, own_proof)",
        (*_PROBES, "tests/rpc/test_transport.py"),
    ),
    _rpc(
        "stranger-s-refusal-counts",
        "outgoing:Outgoing._end_refused",
        "        if is_proven:\n",
        "        if True:\n",
        _PROOFS,
    ),
    _rpc(
        "stranger-s-reason-counts",
        "outgoing:Outgoing._end_refused",
        "refusal.reason if is_proven or refusal.reason in UNPROVEN else Reason.UNKNOWN",
        "refusal.reason",
        _PROOFS,
    ),
    _rpc(
        "one-key-for-all-purposes",
        "/cluster_secret:ClusterSecret.derive",
        "tuple(hmac.digest(key, purpose, hashlib.sha256) for key in self.keys)",
        "self.keys",
        _SECRET,
    ),
    _rpc("readable-secret", "/cluster_secret:create_secret", "0o600", "0o644", _SECRET),
    _rpc("overwritten-secret", "/cluster_secret:create_secret", "os.O_CREAT | os.O_EXCL", "os.O_CREAT", _SECRET),
    _rpc("short-key", "/cluster_secret:_parse_key", "if len(key) < KEY_BYTES_MIN:", "if False:", _SECRET),
    _rpc("certificate-with-other-digits", "authentication:certified_nodes", "text.isascii() and ", "", _PROOFS),
    _rpc(
        "parts-of-a-proof-run-together",
        "authentication:_compute_mac",
        'len(part).to_bytes(4, "big") + part',
        "part",
        _PROOFS,
    ),
    _rpc(
        "older-release-is-served",
        "handshake:_check_levels",
        "peer.feature_level_max < me.feature_level_min or ",
        "",
        _HANDSHAKE,
    ),
    _rpc(
        "oldest-common-level-refused",
        "handshake:_check_levels",
        "peer.feature_level_max < me",
        "peer.feature_level_max <= me",
        _HANDSHAKE,
    ),
    _rpc(
        "newest-common-level-refused",
        "handshake:_check_levels",
        "peer.feature_level_min > me",
        "peer.feature_level_min >= me",
        _HANDSHAKE,
    ),
    _rpc(
        "own-address-is-another-node",
        "handshake:_check_not_self",
        "if remote.boot_id != local.boot_id:",
        "if True:",
        _HANDSHAKE,
    ),
    _rpc(
        "own-address-is-a-second-process",
        "handshake:check_peer",
        "        or _check_not_self(local, remote)\n        or _check_names(local, remote, expected_node)\n",
        "        or _check_names(local, remote, expected_node)\n        or _check_not_self(local, remote)\n",
        _HANDSHAKE,
    ),
    _rpc(
        "unknown-node-is-an-outsider",
        "handshake:is_outsider",
        "known.assigned_disk not in (None, remote.identity.disk_uuid)",
        "known.assigned_disk != remote.identity.disk_uuid",
        _HANDSHAKE,
    ),
    _rpc(
        "any-assigned-disk-makes-a-member",
        "handshake:check_peer",
        "known.assigned_disk == remote.identity.disk_uuid",
        "known.assigned_disk is not None",
        _HANDSHAKE,
    ),
    # requests that are served, and the send queue
    _rpc(
        "answer-without-room-is-lost",
        "request_server:RequestServer._answer",
        "if not self._writer.post_frame(frame):",
        "if self._writer.post_frame(frame) is None:",
        _REQUEST_SERVER,
    ),
    _rpc(
        "answer-that-cannot-be-sent-means-failed",
        "request_server:RequestServer._answer",
        'OutcomeUnknown(f"it was done, but its',
        'InvalidArgument(f"it was done, but its',
        _REQUEST_SERVER,
    ),
    _rpc(
        "large-request-never-served",
        "request_server:RequestServer.take",
        "self._tasks and self._bytes + size",
        "self._bytes + size",
        _REQUEST_SERVER,
    ),
    _rpc(
        "one-request-too-many",
        "request_server:RequestServer.take",
        "len(self._tasks) >= self._config.calls_served_max",
        "len(self._tasks) > self._config.calls_served_max",
        _REQUEST_SERVER,
    ),
    _rpc(
        "ended-requests-take-room",
        "request_server:RequestServer._finish_task",
        "self._bytes -= self._tasks.pop(task)",
        "self._tasks.pop(task)",
        _REQUEST_SERVER,
    ),
    _rpc(
        "unforeseen-failure-without-an-answer",
        "request_server:RequestServer._finish_task",
        'self._fail(correlation, OutcomeUnknown("it failed with an unexpected error; the log of that broker has it"))',
        "pass",
        _REQUEST_SERVER,
    ),
    _rpc(
        "disk-error-of-a-bulk-request-is-a-bug",
        "request_server:RequestServer._serve",
        "except OSError as error:",
        "except ZeroDivisionError as error:",
        _REQUEST_SERVER,
    ),
    _rpc(
        "message-above-a-frame-is-queued",
        "send_queue:SendQueue.add_envelopes",
        "size <= self._config.turn_bytes and ",
        "",
        _BOUNDS,
    ),
    _rpc(
        "heartbeats-of-a-large-turn-stay",
        "send_queue:SendQueue._add_envelope",
        "self._has_heartbeats = self._has_heartbeats or type(envelope.message) in _HEARTBEATS",
        "pass",
        _BOUNDS,
    ),
    _rpc(
        "discarded-messages-not-counted",
        "send_queue:SendQueue.discard",
        "self.messages_dropped += len(self._envelopes)",
        "pass",
        _BOUNDS,
    ),
    _rpc(
        "looks-for-heartbeats-in-vain",
        "send_queue:SendQueue._drop_heartbeats",
        "self._has_heartbeats = is_one_kept",
        "pass",
        _BOUNDS,
        "The flag only saves a look through the queue; where there are no heartbeats the look keeps every message.",
    ),
    # judgements
    _rpc(
        "judge-no-names",
        "handshake:check_peer",
        "        or _check_names(local, remote, expected_node)\n",
        "",
        _HANDSHAKE,
    ),
    _rpc("judge-no-levels", "handshake:check_peer", "_check_levels(local, remote)\n        or ", "", _HANDSHAKE),
    _rpc("retired-disk", "handshake:_check_disk", "if known.is_retired:", "if False:", _HANDSHAKE),
    _rpc("disk-of-another-node", "handshake:_check_disk", "if known.other_node is not None:", "if False:", _HANDSHAKE),
    _rpc(
        "another-disk",
        "handshake:_check_disk",
        "if known.assigned_disk not in (None, peer.disk_uuid):",
        "if False:",
        _HANDSHAKE,
    ),
    _rpc(
        "node-id-twice",
        "handshake:_check_disk",
        "if known.live_disk not in (None, peer.disk_uuid):",
        "if False:",
        _HANDSHAKE,
    ),
    _rpc(
        "old-epoch",
        "handshake:_check_history",
        "if peer.boot_epoch < known.boot_epoch:",
        "if False:",
        _HANDSHAKE,
    ),
    _rpc("copied-disk", "handshake:_check_history", "if remote.boot_id == known.boot_id:", "if True:", _HANDSHAKE),
    _rpc(
        "lost-writes",
        "handshake:_check_history",
        "if peer.journal_sequence < known.journal_sequence:",
        "if False:",
        _HANDSHAKE,
    ),
    _rpc(
        "huge-numbers",
        "handshake:decode_hello",
        " or (type(field) is int and not 0 <= field <= NUMBER_MAX)",
        "",
        (*_HANDSHAKE, *_PROOFS),
    ),
    # memory of peers
    _rpc(
        "sequence-falls",
        "memory:PeerMemory._update",
        "journal_sequence = max(journal_sequence, record.journal_sequence)",
        "pass",
        _HANDSHAKE,
    ),
    _rpc(
        "epoch-falls",
        "memory:PeerMemory._update",
        "if boot_epoch < record.boot_epoch:",
        "if False:",
        _HANDSHAKE,
    ),
    _rpc(
        "heartbeat-of-another-life",
        "memory:PeerMemory.note_heartbeat",
        "if heartbeat.boot_epoch == peer.boot_epoch:",
        "if True:",
        (*_HANDSHAKE, *_PROOFS),
    ),
    _rpc(
        "forget-who-is-retired",
        "memory:PeerMemory.find_record",
        "self.is_retired(disk_uuid)",
        "False",
        (*_HANDSHAKE, *_PROBES),
    ),
    # permitted messages of a peer
    _rpc(
        "messages-in-another-name",
        "/runtime/rpc/frames/codec:TurnDecoder._decode",
        "if sender is not peer and sender != peer:",
        "if False:",
        _PROOFS,
    ),
    _rpc(
        "messages-of-outsiders",
        "accepted_connection:AcceptedConnection.take",
        "            if self._endpoint.memory.is_member(*self._replica):\n                self._endpoint.on_envelopes",
        "            if True:\n                self._endpoint.on_envelopes",
        _PROOFS,
    ),
    _rpc(
        "beats-of-outsiders",
        "accepted_connection:AcceptedConnection.take",
        "            if self._endpoint.memory.is_member(*self._replica):\n                self._endpoint.on_heartbeat",
        "            if True:\n                self._endpoint.on_heartbeat",
        _PROOFS,
    ),
    _rpc(
        "heartbeat-of-another-disk",
        "accepted_connection:AcceptedConnection.take",
        "if heartbeat.disk_uuid != self.hello.identity.disk_uuid:",
        "if False:",
        (*_PROOFS, "tests/rpc/test_transport.py"),
    ),
    _rpc(
        "a-probe-asks-anything",
        "accepted_connection:AcceptedConnection._begin",
        "partial(endpoint.serve_probe, peer)",
        "partial(endpoint.serve, peer.node_id)",
        _PROBES,
    ),
    _rpc(
        "an-outsider-is-noted",
        "accepted_connection:AcceptedConnection._verify",
        "is_noted=not is_outsider(remote, known)",
        "is_noted=True",
        _PROBES,
    ),
    # outcomes of requests
    _rpc("broken-off-means-not-sent", "outgoing:Outgoing.on_close", "ConnectionLost(f", "NotConnected(f", _CALLS),
    _rpc("no-answer-means-not-sent", "outgoing:Outgoing._time_out", "NoAnswer(f", "NotConnected(f", _CALLS),
    _rpc(
        "unknown-error-means-failed",
        "failures:decode_error",
        "OutcomeUnknown if is_unknown else Unavailable",
        "Unavailable",
        ("tests/rpc/test_calls.py",),
    ),
    _rpc(
        "outcome-by-name-alone",
        "failures:decode_error",
        'error_type is None or (error_type.outcome == "unknown") != is_unknown',
        "error_type is None",
        ("tests/rpc/test_calls.py",),
    ),
    _rpc(
        "half-done-means-failed",
        "request_server:RequestServer._serve",
        "OutcomeUnknown(f",
        "Overloaded(f",
        _CALLS,
    ),
    # gossip
    _rpc(
        "forged-gossip",
        "/membership/authentication:Seal.open",
        "if not any(hmac.compare_digest(_compute_tag(key, sealed), tag) for key in self._keys.accepted):",
        "if False:",
        _GOSSIP,
    ),
    _rpc(
        "replayed-gossip",
        "/membership/authentication:Seal.open",
        "if not self._guard.accept(sender, boot_epoch, number):",
        "if False:",
        _GOSSIP,
    ),
    _rpc(
        "gossip-of-an-old-life",
        "/membership/authentication:Seal.open",
        "if self._guard.is_old_boot_epoch(sender, boot_epoch):",
        "if False:",
        _GOSSIP,
    ),
    _rpc(
        "gossip-of-another-cluster",
        "/membership/authentication:Seal.open",
        "if cluster_id != self._me.cluster_id.bytes:",
        "if False:",
        _GOSSIP,
    ),
)
