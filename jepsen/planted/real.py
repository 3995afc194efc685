"""Planted bugs for real processes: each with the scenario in which it takes effect, and the findings that detect it.

A scenario is numbered, or one of `jepsen.planted.fault_scripts`; without the bug each of them is valid. `UNSEEN` gives
for the other bugs the reason why no checker outside of the processes sees them within a minute: only the simulation
detects those."""

from typing import Final, NamedTuple

from jepsen.nemeses.fault import FaultKind
from jepsen.planted import broker_scripts, fault_scripts
from jepsen.runner.stage import Script
from jepsen.scenarios.catalogue import SCENARIOS
from jepsen.scenarios.scenario import Scenario

LOST: Final = ("lost-write", "inconsistent-offset", "offset-order", "end-went-back", "stale-end", "unseen")
DIFFERENT: Final = (*LOST, "replicas-differ", "damaged-log", "too-few-copies", "leader-epoch")

RATE: Final = 200.0
CLIENTS: Final = 2
SECONDS: Final = 8.0


class RealCase(NamedTuple):
    """Scenario for a planted bug, and the findings that detect it."""

    scenario: Scenario
    detected_by: tuple[str, ...]
    """Kinds of findings, any of which detects the bug."""


def _make_scenario(
    name: str, title: str, play: Script, faults: tuple[FaultKind, ...], workload: str = "plain"
) -> Scenario:
    """Return a scenario for planted bugs, with the duration, rate and clients that all of them have."""
    return Scenario(name, title, play, faults, workload, seconds=SECONDS, rate=RATE, clients=CLIENTS)


_FOLLOWER_FORGETS = _make_scenario(
    "follower-forgets",
    "the power of a follower goes amid slow syncs",
    fault_scripts.lose_data_of_one("power", slow_syncs=True),
    ("kill", "power", "pause", "sync"),
)
_RESTART = _make_scenario(
    "restart",
    "a follower starts again, and is in the next quorum",
    fault_scripts.lose_data_of_one("kill"),
    ("kill", "pause"),
)
_STALE = _make_scenario(
    "stale",
    "a disk is an old copy, and its node is needed",
    fault_scripts.lose_data_of_one("damage", shape="stale"),
    ("kill", "damage", "pause"),
)
_RECORDS = _make_scenario(
    "records",
    "old records are damaged, and their node is needed",
    broker_scripts.damage_old_records,
    ("kill", "damage", "pause"),
)
_NEW_LEADER = _make_scenario(
    "new-leader-alone",
    "a new leader is cut off before it has committed",
    fault_scripts.isolate_new_leader,
    ("packet", "kill", "cut"),
)
_COMES_BACK = _make_scenario(
    "comes-back", "a follower comes back amid appends", fault_scripts.restart_follower_amid_writes, ("kill",)
)
_NEWEST = _make_scenario(
    "newest", "all that is newest is compacted", broker_scripts.compact_to_newest_values, ()
)._replace(serve_flags=("--retention-interval-s", "0.5"))
_QUIESCED = _make_scenario(
    "quiesced", "the leader of an idle partition dies", broker_scripts.kill_quiesced_leader, ("kill",)
)
_RETRY = _make_scenario("retry", "a retry comes late", broker_scripts.retry_late, ("kill",))
_RETRY_ALONE = _make_scenario(
    "retry-alone", "a retry meets a leader that is alone", broker_scripts.retry_at_isolated_leader, ("cut",)
)
_ISOLATED_BRIEFLY = _make_scenario(
    "isolated", "a member is isolated for a moment", broker_scripts.isolate_member_briefly, ()
)
_BROADCASTS = _make_scenario(
    "broadcasts", "broadcasts of a restart end", broker_scripts.check_broadcasts_end, ("kill",)
)
_FOUNDING = _make_scenario("founding", "seeds come one after another", broker_scripts.start_seeds_one_by_one, ())
_RESUMES_ALONE = _make_scenario(
    "resumes-alone",
    "a leader is paused, and resumes isolated",
    fault_scripts.resume_leader_in_isolation,
    ("cut", "pause"),
    "register",
)
_CUT_REGISTERS = SCENARIOS["F20"]._replace(number="F20-register", workload="register")

REAL: Final[dict[str, RealCase]] = {
    "refuse-pre-vote-quiesced": RealCase(_QUIESCED, ("expectation",)),
    "count-follower-unsynced": RealCase(_FOLLOWER_FORGETS, LOST),
    "accept-gap": RealCase(_COMES_BACK, DIFFERENT),
    "read-without-quorum": RealCase(_RESUMES_ALONE, ("not-linearizable",)),
    "route-to-deposed-leader": RealCase(_CUT_REGISTERS, ("not-linearizable",)),
    "bootstrap-group-again": RealCase(_RESTART, LOST),
    "answer-before-commit": RealCase(_NEW_LEADER, LOST),
    "accept-stale-disk": RealCase(_STALE, LOST),
    "lift-quarantine": RealCase(_RECORDS, ("expectation", "damaged-log", "replicas-differ")),
    "found-without-all": RealCase(_FOUNDING, ("expectation",)),
    "gossip-edits-voters": RealCase(SCENARIOS["F28"], ("expectation",)),
    "never-refute": RealCase(_ISOLATED_BRIEFLY, ("expectation",)),
    "retransmit-without-end": RealCase(_BROADCASTS, ("expectation",)),
    "acknowledge-duplicate-early": RealCase(_RETRY_ALONE, ("expectation",)),
    "expire-by-own-clock": RealCase(_RETRY, ("expectation",)),
    "forget-producers-after-trim": RealCase(_RETRY, ("expectation",)),
    "drop-newest-value": RealCase(_NEWEST, ("expectation",)),
}

_REFUSED: Final = "the others remember how far its journal was synced, and refuse a disk that comes with less"
_MAJORITIES: Final = "two majorities without a common member would have to be cut apart in the milliseconds of a change"
_RARE: Final = "it did no harm that was seen under the scenario of its kind within a minute"
_ASSERTION: Final = "the broker ends by an assertion of its own before a client could be misled"
_FEW_PRODUCERS: Final = "clients take fewer producer ids than a partition knows, so that none expires"
UNSEEN: Final[dict[str, str]] = {
    "skip-vote-sync": _ASSERTION,
    "transfer-to-just-promoted": _ASSERTION,
    "vote-twice": _ASSERTION,
    "no-pre-vote": _ASSERTION,
    "cut-corrupt": "a start checks the entries that the journal still has, and repairs from there",
    "removed-disturbs": _ASSERTION,
    "commit-without-fencing": _RARE,
    "resurrect-key": _RARE,
    "append-after-expiry": _FEW_PRODUCERS,
    "keep-expired-ids-in-memory": _FEW_PRODUCERS,
    "replay-out-of-order": "the old vote counts only in a term that goes on while its voter starts again",
    "count-leader-unsynced": "hardly anything is acknowledged before the leader's own sync, also where syncs are slow",
    "two-changes-at-once": _MAJORITIES,
    "leave-joint-early": _MAJORITIES,
    "moves-change-twice": _MAJORITIES,
    "moved-first-replicas-never-exist": "a move has to arrive within milliseconds of the creation",
    "leave-joint-on-fail-over": _MAJORITIES,
    "damaged-is-torn": _REFUSED,
    "wiped-disk-keeps-name": _REFUSED,
    "resurrect-deleted-topic": "a deletion is followed before the creation comes; who was down hears of both, and "
    "what it has of the former topic is no majority: it neither leads nor is asked",
    "drop-what-does-not-fit": "a broker asks for room before it takes anything, so little is dropped; tried twice",
    "damaged-journal-begins-anew": _REFUSED,
    "commit-old-term": "readers are shown nothing before the first commit of a leader's own term, and two changes of "
    "leader would have to fit between both",
    "cut-matching": "messages that come twice or late do not exist between processes that talk over TCP",
    "overwrite-before-cut": "who finds its bytes overwritten takes them for damaged, and gets them from the others",
    "forget-boundary-term": "a follower without a known previous entry gets the log from its beginning",
    "ignore-incarnations": "datagrams that come late overturn news for the moment that it takes to contradict them",
    "overfill-datagrams": "the news of three members fits into one datagram, and loopback carries larger ones",
    "leave-outdated-claims": "an uncorrected member learns the state by its next probes",
    "forget-incarnations": "a returning member receives the claim of its death with the first answer, and refutes it",
}
"""Reasons why real processes do not show the other bugs."""
