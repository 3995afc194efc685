"""Mutants of the driver's room (`raftlog/runtime`): persister, checkpoints, outcomes, trims, rolls, installs.

Changes of syncs and cuts that only an unordered disk shows are in `disk`.
"""

from typing import Final

from jepsen.mutants.mutant import Mutant

_DRIVER: Final = ("tests/runtime/test_driver.py", "tests/runtime/test_adversity.py")
_CHECKPOINTS: Final = ("tests/runtime/test_checkpoints.py", *_DRIVER)
_TRIMS: Final = ("tests/replica/test_committed_trims.py", "tests/runtime/test_driver.py")
_INSTALLS: Final = ("tests/runtime/test_fetching.py", "tests/runtime/test_installed_place.py", *_DRIVER)


def _runtime(name: str, place: str, old: str, new: str, tests: tuple[str, ...], equivalent: str = "") -> Mutant:
    """`place` is module:function."""
    module, _, function = place.partition(":")
    return Mutant(f"runtime-{name}", f"raftlog/runtime/{module}.py", function, old, new, tests, equivalent)


MUTANTS: Final[tuple[Mutant, ...]] = (
    # persister
    _runtime(
        "send-before-durable",
        "persister:Persister.persist",
        "if not ready.must_sync and not group.parts:",
        "if not group.parts:",
        _DRIVER,
    ),
    _runtime(
        "write-before-the-mark",
        "persister:Persister.write",
        "if group.key in self._unmarked:",
        "if False:",
        ("tests/runtime/test_creations.py", *_DRIVER),
    ),
    _runtime(
        "removed-replica-forgets-its-position",
        "persister:Persister.removal_of",
        "return [VotingPosition(group.key, *position), Removed(group.key)]",
        "return [Removed(group.key)]",
        ("tests/runtime/test_giving_up.py", "tests/runtime/test_creations.py", *_DRIVER),
    ),
    _runtime(
        "ids-before-their-bytes",
        "large_appends:LargeAppends.start",
        "self._disk.submit_sync(changed.files, changed.directories, synced)",
        "synced(None)",
        _DRIVER,
    ),
    _runtime(
        "waits-end-early",
        "durable_waits:DurableWaits.settle",
        "while self._waiting and self._waiting[0][0] <= durable:",
        "while self._waiting:",
        _DRIVER,
    ),
    # driver
    _runtime(
        "take-spoiled-entries",
        "driver:Driver._receive",
        "if type(message) is AppendRequest and message.entries and not self._admits(group, message):",
        "if False:",
        _DRIVER,
    ),
    _runtime(
        "admit-another-offset",
        "admission:Admission.admits",
        "if expected is not None and read_header(entries[0].payload).base_offset != expected:",
        "if False:",
        _DRIVER,
    ),
    # checkpoints
    _runtime(
        "checkpoint-of-old-states",
        "checkpoints:Checkpoints._look_at",
        "self._to_sync[key] = group",
        "pass",
        _CHECKPOINTS,
    ),
    _runtime(
        "returned-replica-forgets-its-vote",
        "checkpoints:Checkpoints.forget_removed",
        "return HardState(removed.term, vote), ",
        "return HardState(removed.term, None), ",
        ("tests/runtime/test_creations.py", *_CHECKPOINTS),
    ),
    _runtime(
        "returned-replica-forgets-its-log",
        "checkpoints:Checkpoints.forget_removed",
        "EntryId(*position) if position else None",
        "None",
        ("tests/runtime/test_creations.py", *_CHECKPOINTS),
    ),
    # proposals
    _runtime(
        "another-leader-s-entry-counts",
        "proposals:Proposals._outcome",
        "if log.term_at(last) == term:",
        "if True:",
        _DRIVER,
    ),
    _runtime(
        "ended-means-failed",
        "proposals:Proposals.end",
        'OutcomeUnknown(f"{self._name}: {why}")',
        'NotLeader(f"{self._name}: {why}", None)',
        _DRIVER,
    ),
    # the log of a group
    _runtime(
        "cut-keeps-noted-trims",
        "group_log:GroupLog.cut_to",
        "self.noted.pop()",
        "break",
        (*_TRIMS, "tests/runtime/test_adversity.py"),
    ),
    _runtime(
        "cut-keeps-producers",
        "group_log:GroupLog.cut_to",
        "self.producers.cut_to(index)",
        "pass",
        ("tests/replica/test_producers.py",),
    ),
    _runtime(
        "durable-beyond-the-files",
        "group_log:GroupLog.note_durable",
        "index = min(index, self.written_index)",
        "pass",
        _DRIVER,
    ),
    _runtime(
        "release-what-is-not-written",
        "group_log:GroupLog.release",
        "free = min(applied, self.written_index) + 1 - self._recent_first",
        "free = applied + 1 - self._recent_first",
        ("tests/runtime/test_group_log_reading.py", *_DRIVER),
    ),
    # trims and rolls
    _runtime(
        "follow-an-uncommitted-trim",
        "trimming:Trimming.go_on",
        "while log.noted and log.noted[0][0] <= group.applied_index:",
        "while log.noted:",
        _TRIMS,
    ),
    _runtime(
        "trim-the-last-record",
        "trimming:Trimming.trimmable",
        "if offset < group.high_watermark or group.log.has_roll_at(offset, group.applied_index):",
        "if True:",
        _TRIMS,
    ),
    _runtime(
        "drop-files-of-a-damaged-replica",
        "trimming:Trimming._may_drop",
        "return is_sound and ",
        "return ",
        (*_TRIMS, "tests/runtime/test_doubt.py"),
    ),
    _runtime(
        "trim-above-the-high-watermark",
        "group:Group.propose_trim",
        "if not 0 <= offset <= self.high_watermark:",
        "if False:",
        _TRIMS,
    ),
    _runtime(
        "roll-behind-a-roll",
        "rolling:Rolling.may_roll",
        "            and log.next_offset > log.segments.active.base_offset\n",
        "",
        _DRIVER,
    ),
    # installs
)
