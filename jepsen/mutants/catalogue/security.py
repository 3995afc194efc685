"""Mutants of permissions, quotas and certificates."""

from typing import Final

from jepsen.mutants.mutant import Mutant

MUTANTS: Final = (
    Mutant(
        "security-waiting-requests-are-not-checked",
        "partitions/security/permission_watch.py",
        "PermissionWatches.check_all",
        "self._is_stale = bool(self._open)",
        "self._is_stale = False",
        ("tests/security/test_permission_watch.py",),
    ),
    Mutant(
        "security-revoked-request-returns-its-result",
        "partitions/security/permission_watch.py",
        "PermissionWatch.__aexit__",
        "if error is None or (",
        "if error is not None and (",
        ("tests/security/test_permission_watch.py",),
    ),
    Mutant(
        "security-denial-does-not-win",
        "raftlog/security/acl_index.py",
        "AclIndex.allows",
        "                if denied & denying:\n                    return False\n",
        "",
        ("tests/security/test_permissions.py",),
    ),
    Mutant(
        "security-removed-entry-stays",
        "raftlog/security/acl_index.py",
        "AclIndex.remove",
        "masks[place] &= ~bit",
        "masks[place] |= bit",
        ("tests/security/test_acl_index.py",),
    ),
    Mutant(
        "security-kept-decisions-survive-changes",
        "partitions/security/authorizer.py",
        "Authorizer._follow",
        "        self._decisions.clear()\n",
        "",
        ("tests/security/test_authorizer.py",),
    ),
    Mutant(
        "security-changes-above-the-quota",
        "partitions/security/client_rates.py",
        "ClientRates.mutation",
        "if is_strict and delay_s > 0:",
        "if not is_strict and delay_s > 0:",
        ("tests/security/test_client_rates.py",),
    ),
    Mutant(
        "security-expired-certificate-is-no-problem",
        "partitions/security/listener_security.py",
        "ListenerSecurities.problems",
        "if self._now() >= period.ends",
        "if self._now() < period.ends",
        ("tests/security/test_listener_security.py",),
    ),
)
