"""Index of access control entries, with which a decision costs the same for ten entries as for 100,000.

    (principal, host, type of resource) → literal or prefixed name → bits of allowed and of denied operations

A decision looks in at most four of these tables: for the principal and for all principals, each at the host and at all
hosts. In a table it looks up the name, `*`, and a prefix of the name for each length of prefixes there. Entries are
added and removed one by one, so the cost of a change is that of the changed entries. Used by the authorizer, which
keeps decisions."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from raftlog.security.permissions import (
    EVERY_PRINCIPAL,
    IMPLIED_BY,
    USER_PREFIX,
    WILDCARD,
    Acl,
    AclEffect,
    AclOperation,
    AclResourceType,
    PatternType,
    Resource,
)

_ALLOWED: Final = 0
_DENIED: Final = 1


def _bits(operations: Iterable[AclOperation]) -> int:
    """Return a bit set of operations."""
    return sum(1 << operation for operation in operations)


_GRANTING: Final = {
    operation: _bits({operation, AclOperation.ALL, *IMPLIED_BY.get(operation, ())}) for operation in AclOperation
}
"""For each operation, the bits of the operations whose permission includes it."""
_DENYING: Final = {operation: _bits({operation, AclOperation.ALL}) for operation in AclOperation}


class _Patterns:
    """Access entries for one principal, host and resource type: masks of operations by name pattern."""

    __slots__ = ("lengths", "literal", "prefixed")

    def __init__(self) -> None:
        self.literal: dict[str, list[int]] = {}
        self.prefixed: dict[str, list[int]] = {}
        self.lengths: Counter[int] = Counter()
        """Number of prefixes of each length."""

    def table(self, pattern_type: PatternType) -> dict[str, list[int]]:
        """Return the masks of operations by name, for one type of patterns."""
        return self.prefixed if pattern_type is PatternType.PREFIXED else self.literal

    def matching(self, name: str) -> Iterator[list[int]]:
        """Yield the masks of the patterns that match a resource's name."""
        for literal in (name, WILDCARD) if name != WILDCARD else (WILDCARD,):
            masks = self.literal.get(literal)
            if masks is not None:
                yield masks
        yield from self.prefixes(name)

    def prefixes(self, name: str) -> Iterator[list[int]]:
        """Yield the masks of the patterns that are prefixes of a name."""
        for length in self.lengths:
            if length <= len(name) and (masks := self.prefixed.get(name[:length])) is not None:
                yield masks


class AclIndex:
    """Index of the access control entries, for quick decisions. Its length is the number of entries."""

    def __init__(self, acls: Iterable[Acl] = ()) -> None:
        self._patterns: dict[tuple[str, str, AclResourceType], _Patterns] = {}
        self._count = 0
        for acl in acls:
            self.add(acl)

    def __len__(self) -> int:
        return self._count

    def add(self, acl: Acl) -> None:
        """Add an entry, unless the index has it already."""
        patterns = self._patterns.setdefault((acl.principal, acl.host, acl.resource_type), _Patterns())
        masks = patterns.table(acl.pattern_type).get(acl.resource_name)
        if masks is None:
            masks = patterns.table(acl.pattern_type)[acl.resource_name] = [0, 0]
            if acl.pattern_type is PatternType.PREFIXED:
                patterns.lengths[len(acl.resource_name)] += 1
        place, bit = _place_of(acl), 1 << acl.operation
        self._count += not masks[place] & bit
        masks[place] |= bit

    def remove(self, acl: Acl) -> None:
        """Remove an entry, if the index has it."""
        key = (acl.principal, acl.host, acl.resource_type)
        patterns = self._patterns.get(key)
        masks = None if patterns is None else patterns.table(acl.pattern_type).get(acl.resource_name)
        place, bit = _place_of(acl), 1 << acl.operation
        if patterns is None or masks is None or not masks[place] & bit:
            return
        masks[place] &= ~bit
        self._count -= 1
        if any(masks):
            return
        del patterns.table(acl.pattern_type)[acl.resource_name]
        if acl.pattern_type is PatternType.PREFIXED:
            length = len(acl.resource_name)
            patterns.lengths[length] -= 1
            if not patterns.lengths[length]:
                del patterns.lengths[length]
        if not patterns.literal and not patterns.prefixed:
            del self._patterns[key]

    def allows(self, principal: str, host: str, operation: AclOperation, resource: Resource) -> bool:
        """Return whether the entries allow an operation; `principal` is a name without its type."""
        granting, denying = _GRANTING[operation], _DENYING[operation]
        is_allowed = False
        for patterns in self._relevant(principal, host, resource.type):
            for allowed, denied in patterns.matching(resource.name):
                if denied & denying:
                    return False
                if allowed & granting:
                    is_allowed = True
        return is_allowed

    def allows_any(self, principal: str, host: str, operation: AclOperation, resource_type: AclResourceType) -> bool:
        """Return whether the entries allow an operation on any resource of a type, existing or not (KIP-679).

        An allowed pattern that a denial covers completely does not count. The cost grows with the number of the
        principal's own patterns, if denials cover most of them."""
        granting, denying = _GRANTING[operation], _DENYING[operation]
        relevant = list(self._relevant(principal, host, resource_type))

        def is_denied(tables: Iterable[Iterable[list[int]]]) -> bool:
            """Return whether one of the masks denies the operation."""
            return any(masks[_DENIED] & denying for table in tables for masks in table)

        if is_denied((each.literal[WILDCARD],) for each in relevant if WILDCARD in each.literal):
            return False
        for patterns in relevant:
            for name, masks in patterns.literal.items():
                if masks[_ALLOWED] & granting and (
                    name == WILDCARD or not is_denied(each.matching(name) for each in relevant)
                ):
                    return True
            for prefix, masks in patterns.prefixed.items():
                if masks[_ALLOWED] & granting and not is_denied(each.prefixes(prefix) for each in relevant):
                    return True
        return False

    def _relevant(self, principal: str, host: str, type_: AclResourceType) -> Iterator[_Patterns]:
        """Yield the patterns that apply to a principal at a host."""
        for who in (USER_PREFIX + principal, EVERY_PRINCIPAL):
            for where in (host, WILDCARD):
                patterns = self._patterns.get((who, where, type_))
                if patterns is not None:
                    yield patterns


def _place_of(acl: Acl) -> int:
    """Return the index of an entry's mask in the pair of allowed and denied operations."""
    return _DENIED if acl.effect is AclEffect.DENY else _ALLOWED
