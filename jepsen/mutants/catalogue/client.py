"""Mutants of the clients (`raftlog/client`): resending, unknown outcomes, sequences, commits, membership."""

from typing import Final

from jepsen.mutants.mutant import Mutant

_TRANSPORT: Final = ("tests/client/test_transport.py", "tests/client/test_broker_client.py")
_FAILURES: Final = ("tests/client/test_failures.py", "tests/client/test_broker_client.py")
_PRODUCER: Final = ("tests/client/test_producer.py",)
_LANE: Final = ("tests/client/test_producer_lane.py",)
_CONSUMER: Final = ("tests/client/test_consumer.py",)
_GROUP: Final = ("tests/client/test_consumer_group.py",)


def _client(name: str, place: str, old: str, new: str, tests: tuple[str, ...], equivalent: str = "") -> Mutant:
    """Return a mutant at `place`, a text `module:function`."""
    module, _, function = place.partition(":")
    return Mutant(f"client-{name}", f"raftlog/client/{module}.py", function, old, new, tests, equivalent)


MUTANTS: Final[tuple[Mutant, ...]] = (
    # requests
    _client("repeat-a-change", "transport:HttpTransport.request", "if not repeatable:", "if False:", _TRANSPORT),
    _client(
        "lost-answer-forgotten",
        "transport:HttpTransport.request",
        'raise reported if lost is None else OutcomeUnknown(f"{lost}, and may have been done; then: {reported}")',
        "raise reported",
        _TRANSPORT,
    ),
    _client(
        "lost-and-then-nobody",
        "transport:HttpTransport.request",
        "        if lost is not None:\n            raise",
        "        if False:\n            raise",
        _TRANSPORT,
    ),
    _client(
        "sent-twice-below",
        "transport:HttpTransport._send",
        "_ONCE if method in _REPEATED_BY_AIOHTTP else None",
        "None",
        _TRANSPORT,
    ),
    _client(
        "broken-off-means-not-sent",
        "transport:_was_not_sent",
        "aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError",
        "aiohttp.ClientError",
        _TRANSPORT,
    ),
    _client(
        "trust-a-hint-that-failed",
        "transport:HttpTransport.request",
        "self._forget(target, address)",
        "pass",
        ("tests/client/test_leaders.py", *_TRANSPORT),
    ),
    _client("unknown-means-failed", "failures:failure_of", 'if outcome == "unknown":', "if False:", _FAILURES),
    _client(
        "gateway-timeout-means-failed",
        "failures:error_of",
        '"unknown" if status == 504 else "failed"',
        '"failed"',
        _FAILURES,
    ),
    _client(
        "failed-means-unknown",
        "failures:failure_of",
        'if kind is None or kind.outcome == "unknown":',
        "if kind is None:",
        _FAILURES,
    ),
    _client(
        "failed-record-is-delivered",
        "broker:_read_offsets",
        'if row["error_code"] is not None:',
        "if False:",
        (*_FAILURES, *_PRODUCER),
    ),
    # the producer
    _client(
        "sent-again-without-an-id",
        "producers/producer_lane:ProducerLane._is_over",
        "return self._identities is None or isinstance(error, DuplicateSequence)",
        "return isinstance(error, DuplicateSequence)",
        _PRODUCER,
    ),
    _client(
        "lost-answer-not-noted",
        "producers/producer_lane:ProducerLane._send",
        "batch.maybe_stored = True",
        "pass",
        _PRODUCER,
    ),
    _client(
        "unsure-means-failed",
        "producers/producer_lane:ProducerLane._give_up",
        "kind = OutcomeUnknown if is_unsure else Unavailable",
        "kind = Unavailable",
        _PRODUCER,
    ),
    _client(
        "broken-chain-goes-on",
        "producers/producer_lane:ProducerLane._break_chain",
        "self._abandoned, self._identity = self._identity, None",
        "pass",
        _PRODUCER,
    ),
    _client(
        "broken-chain-repeats-what-may-be-stored",
        "producers/producer_lane:ProducerLane._break_chain",
        "if batch.maybe_stored:",
        "if False:",
        _PRODUCER,
    ),
    _client(
        "old-sequences-under-a-new-id",
        "producers/producer_lane:ProducerLane._renew_identity",
        "        for batch in self._unsettled:\n            self._set_sequence(batch)\n",
        "",
        _PRODUCER,
    ),
    _client(
        "leave-during-recovery",
        "producers/producer_lane:ProducerLane._send_waiting",
        "if self._recovery is not None:",
        "if False:",
        _PRODUCER,
    ),
    _client(
        "recover-before-all-answers",
        "producers/producer_lane:ProducerLane._recover",
        "while self._under_way:",
        "while False:",
        _PRODUCER,
    ),
    _client(
        "closed-means-not-sent",
        "producers/producer_lane:_make_closed_error",
        "if is_sent:",
        "if False:",
        _PRODUCER,
    ),
    _client(
        "another-id-is-the-same",
        "producers/identities:Identities._get_other",
        "if current is None or current == abandoned:",
        "if current is None:",
        _PRODUCER,
    ),
    _client(
        "expired-batch-sent-again-when-it-may-be-stored",
        "producers/producer_lane:ProducerLane._is_over",
        "            return batch.maybe_stored",
        "            return False",
        _LANE,
    ),
    _client(
        "duplicate-without-offset-sent-again",
        "producers/producer_lane:ProducerLane._is_over",
        " or isinstance(error, DuplicateSequence)",
        "",
        _LANE,
    ),
    _client(
        "window-without-answered-batches",
        "producers/producer_lane:ProducerLane._has_window",
        "self._departed - self._unsettled[0].number < self._settings.in_flight_max",
        "len(self._unsettled) < self._settings.in_flight_max",
        _LANE,
    ),
    _client(
        "stopped-lane-keeps-batches-that-left",
        "producers/producer_lane:ProducerLane._stop",
        "(*self._unsettled, *waiting)",
        "waiting",
        _LANE,
    ),
    _client(
        "stopped-lane-forgets-lost-answers",
        "producers/producer_lane:ProducerLane._stop",
        "OutcomeUnknown if batch.maybe_stored else Unavailable",
        "Unavailable",
        _LANE,
    ),
    _client(
        "stopped-lane-keeps-its-open-batch",
        "producers/producer_lane:ProducerLane._stop",
        "waiting, self._waiting, self._open = self._waiting, deque(), None",
        "waiting, self._waiting = self._waiting, deque()",
        _LANE,
    ),
    _client(
        "lane-sequences-do-not-wrap", "producers/producer_lane:ProducerLane._set_sequence", " % SEQUENCES", "", _LANE
    ),
    # commits and membership
    _client(
        "commits-overtake",
        "consumers/commits:Commits.commit",
        "async with self._order:",
        "if True:",
        ("tests/client/test_commits.py",),
    ),
    _client(
        "commit-as-nobody",
        "consumers/commits:Commits.commit",
        "member = self.require_membership()",
        "member = None",
        _GROUP,
    ),
    _client(
        "commit-what-is-in-hands",
        "consumers/handed_records:HandedRecords.processed",
        "return self._positions_before(self.last_handed, self.handed_out())",
        "return self.handed_out()",
        (*_CONSUMER, *_GROUP),
    ),
    _client(
        "commit-what-is-ahead",
        "consumers/handed_records:HandedRecords.handed_out",
        "return self._positions_before(self.buffered, positions)",
        "return positions",
        (*_CONSUMER, *_GROUP),
    ),
    _client(
        "lost-member-goes-on",
        "consumers/group_session:GroupSession.apply_error",
        "self.needs_join = self.is_lost = True",
        "self.needs_join = True",
        _GROUP,
    ),
    _client(
        "rebalance-unheard",
        "consumers/group_session:GroupSession.apply_error",
        "            self.needs_join = True\n        elif",
        "            pass\n        elif",
        _GROUP,
    ),
    _client(
        "silent-member-stays",
        "consumers/group_session:GroupSession._send_heartbeats",
        "if time.monotonic() - self.last_poll_s > self._settings.max_poll_interval_ms / 1000:",
        "if False:",
        _GROUP,
    ),
    Mutant(
        "client-unknown-member-keeps-its-id",
        "raftlog/assignors/member.py",
        "MemberProtocol.handle_error",
        "if isinstance(error, UnknownMember):",
        "if False:",
        ("tests/assignors/test_member.py",),
    ),
    # reading
    _client(
        "records-before-the-position",
        "consumers/fetched_records:FetchedRecords.take",
        "if opened and opened[0].offset < position:",
        "if False:",
        _CONSUMER,
    ),
    _client(
        "seek-keeps-what-is-held",
        "consumers/fetched_records:FetchedRecords.begin_at",
        "self._batches.clear()",
        "pass",
        _CONSUMER,
    ),
    _client(
        "seek-keeps-the-fetch-under-way",
        "consumers/fetcher:PartitionFetcher.seek",
        "reading.task.cancel()",
        "pass",
        ("tests/client/test_fetching.py",),
    ),
    _client(
        "reset-in-place-of-an-error",
        "consumers/fetcher:PartitionFetcher._handle_out_of_range",
        'if self._settings.auto_offset_reset == "error":',
        "if False:",
        _CONSUMER,
    ),
)
