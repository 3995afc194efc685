"""Administration of users, entries of access control and client quotas, below /v1/security."""

from raftlog.api.http.security.acls import AclHandlers
from raftlog.api.http.security.quotas import QuotaHandlers
from raftlog.api.http.security.users import UserHandlers

__all__ = ["AclHandlers", "QuotaHandlers", "UserHandlers"]
