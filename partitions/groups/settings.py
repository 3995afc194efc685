"""Limits of requests of group members, and of the state that a coordinator holds."""

from typing import NamedTuple


class GroupSettings(NamedTuple):
    """Settings named like the `group.*` settings of Kafka, with the unit last."""

    min_session_timeout_ms: int = 1_000
    max_session_timeout_ms: int = 1_800_000
    max_rebalance_timeout_ms: int = 3_600_000
    initial_rebalance_delay_ms: int = 250
    """Time that an empty group waits for more members after the first (KIP-134).

    Each new member extends it, up to the rebalance timeout."""
    max_groups: int = 10_000
    """Limit of the groups of one coordinator; groups with members, or waiting to be stored."""
    max_members: int = 500
    """Limit of the members of one group."""
    max_metadata_bytes: int = 400_000
    """Limit of the bytes of all subscriptions of a group, and of all its assignments.

    A group's record, with both, has to fit into one batch."""
