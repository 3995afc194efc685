"""Mutants of consumer groups and their coordinators: generations, fences, order of storage, commits."""

from typing import Final

from jepsen.mutants.mutant import Mutant

_MACHINE: Final = (
    "tests/groups/test_generations.py",
    "tests/groups/test_joining.py",
    "tests/groups/test_stored_first.py",
    "tests/groups/test_static_members.py",
    "tests/groups/test_machine_invariants.py",
)
_WRITER: Final = ("tests/groups/test_writer.py",)
_COMMITS: Final = ("tests/brokers/test_groups.py",)
_COORDINATOR: Final = ("tests/groups/test_coordinator.py",)
_COORDINATOR_LIST: Final = ("tests/groups/test_coordinators.py",)
_COORDINATORS: Final = ("tests/brokers/test_group_coordinators.py",)


def _groups(name: str, place: str, old: str, new: str, tests: tuple[str, ...], equivalent: str = "") -> Mutant:
    """Return a mutant at `place`, which is module:function.

    The module is in `groups` unless it has a slash."""
    module, _, function = place.partition(":")
    path = module if "/" in module else f"groups/{module}"
    return Mutant(f"groups-{name}", f"raftlog/partitions/{path}.py", function, old, new, tests, equivalent)


MUTANTS: Final[tuple[Mutant, ...]] = (
    # fences
    _groups(
        "any-generation", "machine:Machine._current_member", "if generation != group.generation:", "if False:", _MACHINE
    ),
    _groups(
        "commit-before-sync",
        "machine:Machine.check_commit",
        "if found.state is ConsumerGroupState.COMPLETING and not is_transactional:",
        "if False:",
        _MACHINE,
    ),
    _groups(
        "commit-beside-members",
        "machine:Machine.check_commit",
        "if found is None or found.state is ConsumerGroupState.EMPTY:",
        "if True:",
        _MACHINE,
    ),
    _groups(
        "commit-into-a-deleted-group",
        "machine:Machine.check_commit",
        "if found is not None and found.state is ConsumerGroupState.DEAD:",
        "if False:",
        _MACHINE,
    ),
    _groups(
        "two-processes-are-one-static-member",
        "joins:member_of",
        "if holder is not None and holder != member_id:",
        "if False:",
        _MACHINE,
    ),
    _groups(
        "old-static-member-stays",
        "rebalance:GroupRebalance.replace_process",
        "group.rename(member, member_id)",
        "pass",
        _MACHINE,
    ),
    _groups(
        "sync-while-others-join",
        "machine:Machine.sync",
        "if group.state is ConsumerGroupState.PREPARING or (",
        "if (",
        _MACHINE,
    ),
    _groups(
        "any-member-assigns",
        "machine:Machine.sync",
        "if group.state is ConsumerGroupState.COMPLETING and member.member_id == group.leader and not group.storing:",
        "if group.state is ConsumerGroupState.COMPLETING and not group.storing:",
        _MACHINE,
    ),
    _groups(
        "delete-a-group-with-members",
        "machine:Machine.delete",
        "elif found.state is not ConsumerGroupState.EMPTY or found.pending_ids:",
        "elif found.pending_ids:",
        _MACHINE,
    ),
    # stored first
    _groups(
        "heard-before-stored", "rebalance:GroupRebalance.answer_ready", "elif not group.storing:", "else:", _MACHINE
    ),
    _groups(
        "not-stored-and-answered",
        "rebalance:GroupRebalance.on_stored",
        "elif error is not None:",
        "elif False:",
        _MACHINE,
    ),
    _groups(
        "complete-while-storing",
        "rebalance:GroupRebalance.complete_if_joined",
        " or group.storing or group.holds:",
        " or group.holds:",
        _MACHINE,
    ),
    _groups(
        "generation-given-twice",
        "rebalance:GroupRebalance._begin_generation",
        "group.generation += 1",
        "pass",
        _MACHINE,
    ),
    _groups(
        "empty-group-keeps-its-generation",
        "rebalance:GroupRebalance.end_generation",
        "group.generation += 1",
        "pass",
        _MACHINE,
    ),
    _groups(
        "nobody-joins-again",
        "rebalance:GroupRebalance.begin_rebalance",
        "member.join is not None, False, None",
        "True, False, None",
        _MACHINE,
    ),
    _groups(
        "loaded-members-live-for-ever",
        "machine:Machine.load",
        "self._rebalance.restart_session(group, member, now)",
        "pass",
        _MACHINE,
    ),
    _groups(
        "loaded-group-is-assigned",
        "consumer_group:ConsumerGroup.from_record",
        "ConsumerGroupState.STABLE if record.is_assigned else ConsumerGroupState.COMPLETING",
        "ConsumerGroupState.STABLE",
        _MACHINE,
    ),
    _groups(
        "sessions-do-not-run",
        "rebalance:GroupRebalance.restart_session",
        "if not member.waits:",
        "if False:",
        _MACHINE,
    ),
    _groups(
        "waiting-members-expire",
        "rebalance:GroupRebalance.hold_request",
        "if member.waits:",
        "if False:",
        _MACHINE,
    ),
    _groups(
        "old-assignment-stays",
        "rebalance:GroupRebalance.assign",
        'given.get(member.member_id, b"")',
        "given.get(member.member_id, member.assignment)",
        _MACHINE,
    ),
    # the log of a coordinator
    _groups(
        "flush-after-the-leadership", "coordinator/log:LogWriter._flush", "if not self.leads():", "if False:", _WRITER
    ),
    _groups(
        "barrier-in-front-of-the-newest",
        "coordinator/log:LogWriter.barrier",
        "turn = self._given or self._newest",
        "turn = self._given",
        (*_WRITER, *_COMMITS),
    ),
    _groups(
        "refused-entries-expected-for-a-turn",
        "coordinator/log:LogWriter._flush",
        "if appended.done():",
        "if False:",
        _WRITER,
    ),
    _groups(
        "folded-out-of-order",
        "coordinator/log:LogWriter._complete",
        "if is_next:",
        "if True:",
        (*_WRITER, *_COORDINATORS),
    ),
    _groups(
        "what-was-trimmed-stays-folded",
        "folded:FoldedGroups.clear",
        "self.offsets.clear()",
        "pass",
        (*_WRITER, *_COORDINATORS),
    ),
    _groups(
        "appends-under-way-forgotten",
        "coordinator/log:LogWriter.write",
        "        self._folded.expect(entries)\n",
        "",
        _COORDINATOR,
    ),
    # commits
    _groups(
        "lower-commit-overtakes-a-higher",
        "offsets:Offsets.commit",
        "if not await self._coordinator.wait_for_pending(deadline):",
        "if True:",
        _COORDINATOR,
    ),
    _groups(
        "lower-commit-without-quorum",
        "offsets:Offsets.commit",
        "await self._coordinator.wait_until_current(deadline)",
        "pass",
        _COORDINATOR,
    ),
    _groups(
        "commit-into-a-deleted-topic",
        "offsets:Offsets.commit",
        "self.check_topics(offsets)",
        "pass",
        _COORDINATOR,
    ),
    _groups(
        "commit-answered-with-an-older-one",
        "offsets:Offsets.commit",
        "self._coordinator.is_over or ",
        "",
        _COORDINATOR,
    ),
    _groups(
        "known-group-finds-no-room",
        "offsets:Offsets.check_room",
        "group not in self._folded.offsets and ",
        "",
        _COORDINATOR,
    ),
    _groups("one-group-too-many", "offsets:Offsets.check_room", ">= most", "> most", _COORDINATOR),
    _groups(
        "watermark-falls",
        "offsets:Offsets.commit",
        "only_rises=member is None",
        "only_rises=False",
        _COMMITS,
    ),
    _groups(
        "member-commits-only-rise",
        "offsets:Offsets.commit",
        "only_rises=member is None",
        "only_rises=True",
        _COMMITS,
    ),
    _groups(
        "refused-by-a-deposed-coordinator",
        "offsets:Offsets.commit",
        "await self._coordinator.confirm(deadline)",
        "pass",
        (*_COMMITS, *_COORDINATORS),
    ),
    _groups(
        "members-refused-by-a-deposed-coordinator",
        "coordinator:GroupCoordinator._send_request",
        "await self.confirm(deadline)",
        "pass",
        (*_COMMITS, *_COORDINATORS),
    ),
    _groups(
        "stale-committed-offsets",
        "offsets:Offsets.committed",
        "await self._coordinator.wait_until_current(deadline)",
        "pass",
        (*_COMMITS, *_COORDINATORS),
    ),
    _groups(
        "current-without-quorum",
        "coordinator/coordinator:PartitionCoordinator.wait_until_current",
        "await self.replica.offsets(True, deadline)",
        "pass",
        (*_COMMITS, *_COORDINATORS),
    ),
    _groups(
        "reset-a-group-with-members",
        "offsets:Offsets.reset",
        "self._check_empty(group)",
        "pass",
        _COMMITS,
    ),
    _groups(
        "forget-what-is-subscribed",
        "offsets:Offsets.delete_topic_offsets",
        "self._check_not_subscribed(group, topic)",
        "pass",
        _COMMITS,
    ),
    # housekeeping
    _groups(
        "offsets-of-deleted-topics-stay",
        "expiry:GroupExpiry._find_expired_offsets",
        "if self._environment.is_deleted(key.topic_id)",
        "if False",
        _COORDINATOR,
    ),
    _groups(
        "expire-a-group-with-members",
        "expiry:GroupExpiry._find_expired_offsets",
        "self._machine.has_members(group) or not offsets",
        "not offsets",
        _COORDINATOR,
    ),
    _groups(
        "expire-by-the-oldest-commit",
        "expiry:GroupExpiry._find_expired_offsets",
        "newest = max(",
        "newest = min(",
        _COORDINATOR,
    ),
    _groups(
        "expire-by-commits-alone",
        "expiry:GroupExpiry._find_expired_offsets",
        "max(newest, self._empty_since(group))",
        "newest",
        _COORDINATOR,
    ),
    _groups(
        "expire-by-members-alone",
        "expiry:GroupExpiry._find_expired_offsets",
        "max(newest, self._empty_since(group))",
        "self._empty_since(group)",
        _COORDINATOR,
    ),
    _groups(
        "forget-a-group-with-members",
        "expiry:GroupExpiry._has_group_expired",
        " or self._machine.has_members(group)",
        "",
        _COORDINATOR,
    ),
    _groups(
        "forget-an-empty-group-at-once",
        "expiry:GroupExpiry._has_group_expired",
        "return self._is_retention_over(self._empty_since(group))",
        "return True",
        _COORDINATOR,
    ),
    _groups(
        "trim-what-was-stated-anew",
        "coordinator/maintenance:CoordinatorMaintenance._shorten",
        "propose_trim(begin)",
        "propose_trim(coordinator.folded.next_offset)",
        _COORDINATOR,
    ),
    _groups(
        "state-anew-for-ever",
        "coordinator/maintenance:CoordinatorMaintenance._shorten",
        "coordinator.stated_bytes = _size(coordinator)",
        "pass",
        _COORDINATOR,
    ),
    _groups(
        "trim-before-it-is-stated",
        "coordinator/maintenance:CoordinatorMaintenance._shorten",
        "await self._rewrite(coordinator, some)",
        "pass",
        (*_COMMITS, *_COORDINATORS),
    ),
    # coordinators of a process
    _groups(
        "coordinator-of-an-earlier-replica",
        "coordinator/coordinators:Coordinators.follow_leadership",
        "known.replica is not replica or ",
        "",
        _COORDINATOR_LIST,
    ),
    _groups(
        "coordinator-after-the-end",
        "coordinator/coordinators:Coordinators.follow_leadership",
        " and not self._is_closed",
        "",
        _COORDINATOR_LIST,
    ),
    _groups(
        "loading-coordinator-is-listed",
        "coordinator/coordinators:Coordinators.__iter__",
        " if coordinator.is_loaded",
        "",
        _COORDINATOR_LIST,
    ),
    _groups(
        "earlier-coordinator-ends-a-later-one",
        "coordinator/coordinators:Coordinators._replace",
        "if self._active.get(partition) is coordinator:",
        "if partition in self._active:",
        _COORDINATOR_LIST,
    ),
    _groups(
        "end-without-a-beginning",
        "coordinator/coordinators:Coordinators._end",
        "if coordinator.is_loaded:",
        "if True:",
        _COORDINATOR_LIST,
    ),
    _groups(
        "replaced-coordinator-writes-on",
        "coordinator/coordinator:PartitionCoordinator.end",
        "        self.writer.close()\n",
        "",
        _COORDINATOR_LIST,
    ),
    _groups(
        "load-without-the-last-append-of-the-term",
        "coordinator/coordinator:PartitionCoordinator._wait_for_earlier_entries",
        "self.replica.group.applied_index < self._loads_to",
        "False",
        _COORDINATOR_LIST,
    ),
    _groups(
        "beginning-without-a-load",
        "coordinator/coordinators:Coordinators._load",
        "if await coordinator.load():",
        "if not await coordinator.load() or True:",
        _COORDINATOR_LIST,
    ),
    _groups(
        "partition-watched-twice",
        "coordinator/coordinators:Coordinators.watch",
        "if partition not in self._watched:",
        "if True:",
        _COORDINATOR_LIST,
    ),
)
