"""Mutants of transactions: pending offsets of groups, and the fences of their markers."""

from typing import Final

from jepsen.mutants.mutant import Mutant

_GROUPS: Final = ("tests/groups/test_transactions.py",)


def _groups(name: str, place: str, old: str, new: str, tests: tuple[str, ...] = _GROUPS) -> Mutant:
    """Return a mutant at `place`, which is module:function of the package of groups."""
    module, _, function = place.partition(":")
    return Mutant(f"transactions-{name}", f"raftlog/partitions/groups/{module}.py", function, old, new, tests)


MUTANTS: Final[tuple[Mutant, ...]] = (
    _groups(
        "pending-offsets-visible",
        "folded:FoldedGroups.put",
        "pending[key] = value",
        "pending[key] = value; self.offsets.setdefault(key.group, {})[key[2:]] = value.committed()",
    ),
    _groups(
        "pending-offsets-are-stable",
        "offsets:Offsets.stable",
        "place in pending)",
        "False)",
    ),
    _groups(
        "aborted-offsets-committed",
        "transactions:GroupTransactions.end",
        "if marker.is_commit and not",
        "if not",
    ),
    _groups(
        "committed-offsets-stay-pending",
        "transactions:GroupTransactions.end",
        "entries.append(GroupEntry(each, None))",
        "pass",
    ),
    _groups(
        "commit-during-the-marker-stays-pending",
        "transactions:GroupTransactions._get_permission",
        "if number <= guard.ended or",
        "if",
    ),
    _groups(
        "deposed-coordinator-adds-the-group",
        "transactions:GroupTransactions._get_permission",
        " or self._has_ended(enlisted, number)",
        "",
    ),
    _groups(
        "commit-during-its-marker-joins",
        "transactions:GroupTransactions._revoke_permission",
        "guard.ended = max(guard.ended, number or _ANY)",
        "pass",
    ),
    _groups(
        "permission-outlives-its-transaction",
        "transactions:GroupTransactions.end",
        "self._revoke_permission(key, marker.number)",
        "pass",
    ),
    _groups(
        "marker-before-pending-commits",
        "transactions:GroupTransactions.end",
        "await self._coordinator.wait_for_pending(deadline)  # a commit",
        "pass  # a commit",
    ),
    _groups(
        "old-coordinator-ends-transactions",
        "transactions:_marker_error",
        "if known is not None and marker.coordinator_epoch < known.coordinator_epoch:",
        "if False:",
    ),
    _groups(
        "repeated-marker-ends-the-next-transaction",
        "transactions:_is_repeated",
        "return known is not None and 0 < marker.number <= known.number",
        "return False",
    ),
    _groups(
        "repeated-marker-revokes-the-permission",
        "transactions:GroupTransactions.end",
        "if not _is_repeated(marker, known):",
        "if True:",
    ),
    _groups(
        "repeated-marker-before-the-first-is-committed",
        "transactions:GroupTransactions.end",
        "await self._coordinator.wait_for_pending(deadline)  # the first one may be being appended",
        "pass",
    ),
    _groups("old-epoch-ends-transactions", "transactions:_marker_error", "if marker.epoch < newest:", "if False:"),
    _groups(
        "old-epoch-commits",
        "transactions:GroupTransactions._producer_error",
        "if known is not None and epoch < known.epoch:",
        "if False:",
    ),
    _groups(
        "two-epochs-have-pending-offsets",
        "transactions:GroupTransactions._producer_error",
        "if record.epoch < epoch:",
        "if False:",
    ),
    _groups(
        "fences-of-a-deposed-coordinator",
        "transactions:GroupTransactions._check_marker",
        "await self._coordinator.confirm(deadline)",
        "pass",
    ),
    _groups(
        "pending-offsets-replace-later-commits",
        "offsets:Offsets._replaced_offsets",
        "if (key.topic_id, key.partition) in places",
        "if False",
    ),
    _groups(
        "groups-with-pending-offsets-expire",
        "expiry:GroupExpiry._find_expired_offsets",
        "or self._folded.latest_pending(group)",
        "",
    ),
    _groups(
        "empty-groups-with-pending-offsets-expire",
        "expiry:GroupExpiry._has_group_expired",
        "or self._folded.latest_pending(group)",
        "",
    ),
    _groups(
        "rewritten-log-loses-pending-offsets",
        "folded:FoldedGroups.keys",
        "for producers in self.pending.values():",
        "for producers in ():",
    ),
    _groups(
        "rewritten-log-loses-markers",
        "folded:FoldedGroups.keys",
        "yield from self.producers",
        "pass",
    ),
    _groups(
        "pending-offsets-below-their-level",
        "records:_fields",
        "needed.append(LATER_RECORDS.get(type(record), FEATURE_LEVEL_FIRST))",
        "pass",
    ),
)
