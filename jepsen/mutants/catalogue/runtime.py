"""Mutants of the driver (`raftlog/runtime`): persister, checkpoints, outcomes, trims, rolls, installations.

Changes of syncs and cuts that only an unordered disk shows are in `disk`.
"""

from typing import Final

from jepsen.mutants.mutant import Mutant

_DRIVER: Final = ("tests/runtime/test_driver.py", "tests/runtime/test_adversity.py")
_WAITS: Final = ("tests/runtime/test_waits_for_disks.py",)
_OUTCOMES: Final = ("tests/runtime/test_outcomes.py",)
_CHECKPOINTS: Final = ("tests/runtime/test_checkpoints.py", *_DRIVER)
_TRIMS: Final = ("tests/replica/test_committed_trims.py", "tests/runtime/test_driver.py")


def _runtime(name: str, place: str, old: str, new: str, tests: tuple[str, ...], equivalent: str = "") -> Mutant:
    """Return a mutant at `place`, which is module:function."""
    module, _, function = place.partition(":")
    return Mutant(f"runtime-{name}", f"raftlog/runtime/{module}.py", function, old, new, tests, equivalent)


MUTANTS: Final[tuple[Mutant, ...]] = (
    # start
    _runtime(
        "second-loss-forgets-the-first",
        "log/startup:highest_lost_end",
        "ends = [EntryId(*end) for end in (found, journaled) if end is not None]",
        "ends = [EntryId(*end) for end in (found or journaled,) if end is not None]",
        ("tests/runtime/test_group_damage.py",),
    ),
    _runtime(
        "damaged-configuration-not-quarantined",
        "log/startup:_open_group",
        "damage = _first_damage(recovered) or found.damage",
        "damage = _first_damage(recovered)",
        ("tests/runtime/test_driver.py",),
    ),
    _runtime(
        "checkpoint-names-an-older-configuration",
        "process/checkpoints:_configuration_index",
        "if not group.are_configurations_known and group.log.last_index:",
        "if False:",
        ("tests/runtime/test_driver.py",),
    ),
    _runtime(
        "repair-keeps-the-older-configuration-index",
        "transfer/repair:Repair._lift_quarantine",
        "group.configuration_index, group.are_configurations_known = group.core.configuration.index, True",
        "group.are_configurations_known = True",
        ("tests/runtime/test_driver.py",),
    ),
    # deferred appends
    _runtime(
        "slow-quorum-delays-a-commit",
        "process/deferred_appends:DeferredAppends._quorum_due_at",
        "return at",
        "return _NEVER",
        ("tests/runtime/test_deferred_appends.py",),
    ),
    _runtime(
        "every-commit-sends-at-once",
        "process/deferred_appends:DeferredAppends.note",
        "self._due_at = now + self._delay_s",
        "self._due_at = now",
        ("tests/runtime/test_deferred_appends.py",),
    ),
    # persister
    _runtime(
        "send-before-durable",
        "process/persister:Persister.persist",
        "if not ready.must_sync and not group.parts:",
        "if not group.parts:",
        _DRIVER,
    ),
    _runtime(
        "parts-overtake",
        "process/persister:Persister.persist",
        "if not ready.must_sync and not group.parts:",
        "if not ready.must_sync:",
        _WAITS,
    ),
    _runtime(
        "write-before-the-mark",
        "process/persister:Persister.write",
        "if group.key in self._unmarked:",
        "if False:",
        ("tests/runtime/test_creations.py", *_DRIVER),
    ),
    _runtime(
        "removed-replica-forgets-its-position",
        "process/persister:Persister.removal_operations",
        "return [VotingPosition(group.key, *position), Removed(group.key)]",
        "return [Removed(group.key)]",
        ("tests/runtime/test_abandonment.py", "tests/runtime/test_creations.py", *_DRIVER),
    ),
    _runtime(
        "failed-sync-goes-on",
        "process/persister:Persister.sync",
        "if error is not None:",
        "if False:",
        _WAITS,
    ),
    _runtime(
        "ids-before-their-bytes",
        "process/large_appends:LargeAppends.start",
        "self._disk.submit_sync(changed.files, changed.directories, synced)",
        "synced(None)",
        _DRIVER,
    ),
    _runtime(
        "large-sync-fails-silently",
        "process/large_appends:LargeAppends._continue_after_sync",
        "if error:",
        "if False:",
        _WAITS,
    ),
    _runtime(
        "parts-before-their-sync",
        "replica/partition_replica:PartitionReplica.note_durable",
        " and self.parts[0].sequence <= sequence",
        "",
        _WAITS,
    ),
    _runtime(
        "waits-end-early",
        "process/durable_waits:DurableWaits.settle",
        "while self._waiting and self._waiting[0][0] <= durable:",
        "while self._waiting:",
        _DRIVER,
    ),
    # driver
    _runtime(
        "take-spoiled-entries",
        "process/driver:Driver._receive",
        "if type(message) is AppendRequest and message.entries and not admits(group, message, self.room):",
        "if False:",
        _DRIVER,
    ),
    _runtime(
        "admit-a-wrong-crc",
        "replica/admission:end_of_entries",
        "            and crc_matches(batch, header)\n",
        "",
        _OUTCOMES,
    ),
    _runtime(
        "admit-another-term",
        "replica/admission:end_of_entries",
        "            and header.leader_epoch == entry.term\n",
        "",
        _OUTCOMES,
    ),
    _runtime(
        "admit-another-offset",
        "replica/admission:Admission.admits",
        "if expected is not None and base_offset_of(entries[0].payload) != expected:",
        "if False:",
        _DRIVER,
    ),
    _runtime(
        "admit-another-group-s-roll",
        "replica/admission:_is_readable",
        " and roll.group_id == group_id",
        "",
        _OUTCOMES,
    ),
    # checkpoints
    _runtime(
        "checkpoint-of-unwritten-entries",
        "process/checkpoints:Checkpoints._prepare_groups",
        "if group.is_frozen or log.written_index < log.last_index:",
        "if group.is_frozen:",
        _WAITS,
    ),
    _runtime(
        "checkpoint-without-rows",
        "process/checkpoints:Checkpoints._prepare_groups",
        "if segments.published_index < log.last_index:",
        "if False:",
        _WAITS,
    ),
    _runtime(
        "checkpoint-of-old-states",
        "process/checkpoints:Checkpoints._prepare_groups",
        "self._to_sync[key] = group",
        "pass",
        _CHECKPOINTS,
    ),
    _runtime(
        "checkpoint-sync-fails-silently",
        "process/checkpoints:Checkpoints._continue_after_sync",
        "if error:",
        "if False:",
        _WAITS,
    ),
    _runtime(
        "checkpoint-complete-before-its-journal",
        "process/checkpoints:Checkpoints.note_durable",
        " and self._number <= self._journal.durable_start",
        "",
        ("tests/runtime/test_compactor.py", *_CHECKPOINTS),
    ),
    _runtime(
        "first-roll-names-the-voters",
        "log/configuration_walk:_ConfigurationWalk._read_from_newest_roll",
        "reversed(self._log.segments)",
        "self._log.segments",
        ("tests/runtime/test_compactor.py",),
    ),
    _runtime(
        "returned-replica-forgets-its-vote",
        "process/checkpoints:Checkpoints.forget_removed",
        "return HardState(removed.term, vote), ",
        "return HardState(removed.term, None), ",
        ("tests/runtime/test_creations.py", *_CHECKPOINTS),
    ),
    _runtime(
        "returned-replica-forgets-its-log",
        "process/checkpoints:Checkpoints.forget_removed",
        "EntryId(*position) if position else None",
        "None",
        ("tests/runtime/test_creations.py", *_CHECKPOINTS),
    ),
    _runtime(
        "checkpoint-forgets-a-trim-under-way",
        "process/checkpoints:_state_of",
        "group.trim_to if group.trim_to is not None else group.log_start_offset",
        "group.log_start_offset",
        _WAITS,
    ),
    # proposals
    _runtime(
        "another-leader-s-entry-counts",
        "replica/proposals:Proposals._outcome",
        "if log.term_at(last) == term:",
        "if True:",
        _DRIVER,
    ),
    _runtime(
        "half-a-proposal-failed",
        "replica/proposals:Proposals._outcome",
        "if log.term_at(first) == term:",
        "if False:",
        _OUTCOMES,
    ),
    _runtime(
        "trimmed-outcome-guessed",
        "replica/proposals:Proposals._outcome",
        "if first <= log.boundary.index:",
        "if False:",
        _OUTCOMES,
    ),
    _runtime(
        "ended-means-failed",
        "replica/proposals:Proposals.end",
        'OutcomeUnknown(f"{self._name}: {reason}")',
        'NotLeader(f"{self._name}: {reason}", None)',
        _DRIVER,
    ),
    # the log of a group
    _runtime(
        "write-during-a-cut",
        "log/group_log:GroupLog.write",
        "if self._cut_to is not None:",
        "if False:",
        _OUTCOMES,
    ),
    _runtime(
        "cut-keeps-noted-trims",
        "log/group_log:GroupLog.cut_to",
        "self.noted.pop()",
        "break",
        (*_TRIMS, "tests/runtime/test_adversity.py"),
    ),
    _runtime(
        "cut-keeps-producers",
        "log/group_log:GroupLog.cut_to",
        "self.producers.cut_to(index)",
        "pass",
        ("tests/replica/test_producers.py",),
    ),
    _runtime(
        "durable-beyond-the-files",
        "log/group_log:GroupLog.note_durable",
        "index = min(index, self.written_index)",
        "pass",
        _DRIVER,
    ),
    _runtime(
        "release-what-is-not-written",
        "log/group_log:GroupLog.release",
        "free = min(applied, self.written_index) + 1 - self._recent_first",
        "free = applied + 1 - self._recent_first",
        ("tests/runtime/test_group_log_reading.py", *_DRIVER),
    ),
    _runtime(
        "drop-up-to-an-uncommitted-roll",
        "log/leftovers:end_of_leftovers",
        "while removed and segments[len(removed)].base_index > applied:",
        "while False:",
        _OUTCOMES,
    ),
    _runtime(
        "mark-falls",
        "log/group_log:GroupLog.raise_mark",
        "CompactionMark(*map(max, self.mark, mark))",
        "mark",
        _OUTCOMES,
    ),
    # trims and rolls
    _runtime(
        "follow-an-uncommitted-trim",
        "replica/trims:Trims.advance",
        "while log.noted and log.noted[0][0] <= group.applied_index:",
        "while log.noted:",
        _TRIMS,
    ),
    _runtime(
        "uncommitted-trims-in-files",
        "replica/trims:Trims._search_files",
        "last = min(group.applied_index, Index(log.noted_from - 1))",
        "last = Index(log.noted_from - 1)",
        _WAITS,
    ),
    _runtime(
        "trim-the-last-record",
        "replica/trims:Trims.find_trimmable_offset",
        "if offset < group.high_watermark or has_roll_at(group.log.segments, offset, group.applied_index):",
        "if True:",
        _TRIMS,
    ),
    _runtime(
        "drop-files-of-a-damaged-replica",
        "replica/trims:Trims._may_drop",
        "return is_sound and ",
        "return ",
        (*_TRIMS, "tests/runtime/test_doubt.py"),
    ),
    _runtime(
        "trim-above-the-high-watermark",
        "replica/partition_replica:PartitionReplica.propose_trim",
        "if not 0 <= offset <= self.high_watermark:",
        "if False:",
        _TRIMS,
    ),
    _runtime(
        "roll-behind-a-roll",
        "replica/rolls:Rolls.may_roll",
        "            and log.next_offset > log.segments.active.base_offset\n",
        "",
        _DRIVER,
    ),
    _runtime(
        "roll-while-one-is-proposed",
        "replica/rolls:Rolls.may_roll",
        "self.proposed_index <= log.last_index\n            and ",
        "",
        _OUTCOMES,
    ),
    # installs
    _runtime(
        "install-amid-a-cut",
        "transfer/installation:Installation._may_swap_directories",
        "is_idle = not group.parts and not group.is_dirty and not group.log.is_cut_waiting",
        "is_idle = True",
        _WAITS,
    ),
    _runtime(
        "install-before-it-is-journaled",
        "transfer/replacement:Replacement.replace_log",
        "await port.persister.append_durably([Install(group.key, start, end)])",
        "port.persister.append([Install(group.key, start, end)])",
        _WAITS,
    ),
    _runtime(
        "install-what-is-not-wanted",
        "transfer/installation:Installation._swap_directories",
        " or not group.core.needs_install(result.boundary)",
        "",
        _WAITS,
    ),
)
