"""What members may ask for and how much of it a coordinator holds."""

from typing import NamedTuple


class GroupSettings(NamedTuple):
    """Names as Kafka's `group.*` settings, unit last."""

    min_session_timeout_ms: int = 1_000
    max_session_timeout_ms: int = 1_800_000
    max_rebalance_timeout_ms: int = 3_600_000
    initial_rebalance_delay_ms: int = 250
    """How long an empty group waits for more members after the first (KIP-134); each new one extends it, up to the
    rebalance timeout."""
    max_groups: int = 10_000
    """Of one coordinator; with members or waiting to be stored."""
    max_members: int = 500
    """Of one group."""
    max_metadata_bytes: int = 400_000
    """Of all subscriptions of a group, and the same again of all its assignments: a group's record has to fit into one
    batch."""
