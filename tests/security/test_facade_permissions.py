"""Table of the façade's permissions: every public method is in it, once, with operations that its resource has."""

from raftlog.partitions.facade_permissions import GUARDED, INTERNAL, LISTING
from raftlog.security.permissions import OPERATIONS
from tests.security.facade import public_methods


def test_every_public_method_is_guarded_or_internal() -> None:
    known = [*GUARDED, *LISTING, *INTERNAL]
    assert len(known) == len(set(known))
    assert {f"{kind.__name__}.{name}" for kind, name in public_methods()} == set(known)


def test_every_guarded_method_has_a_permission_that_exists() -> None:
    needed = [each for permissions in GUARDED.values() for each in permissions] + list(LISTING.values())
    assert all(GUARDED.values())
    assert all(operation in OPERATIONS[type_] for operation, type_ in needed)
