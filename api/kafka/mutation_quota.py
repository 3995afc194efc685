"""Quota on changed partitions in Kafka's administrative requests (KIP-599).

earlier versions of an API   changes are made, and the connection is muted while the quota is exceeded
later versions               changes above the quota are refused with THROTTLING_QUOTA_EXCEEDED, which clients retry"""

from collections.abc import Mapping
from typing import Final

from raftlog.api.kafka.api import ApiKey
from raftlog.partitions.security.client_rates import MUTATIONS, PER_CLIENT

STRICT_FROM: Final[Mapping[ApiKey, int]] = {
    ApiKey.CREATE_TOPICS: 6,
    ApiKey.DELETE_TOPICS: 5,
    ApiKey.CREATE_PARTITIONS: 3,
}
"""First version of each API in which changes above the quota are refused."""


def is_strict(key: ApiKey, version: int) -> bool:
    """Return whether this version of a request is refused above the quota; older versions are only delayed."""
    return version >= STRICT_FROM[key]


def quotas_of(key: ApiKey, version: int) -> tuple[str, ...]:
    """Return the quotas that delay the next request of a connection after a request of this API and version."""
    is_permissive = key in STRICT_FROM and not is_strict(key, version)
    return (*PER_CLIENT, MUTATIONS) if is_permissive else PER_CLIENT
