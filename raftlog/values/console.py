"""Answers that only the console requests: rows of its lists, and the session of its user.

A list has `total` rows that the caller may see, `matching` of which pass the filter; `next` is the value of `after`
for the next page, None at the end. None in place of a number: the leaders do not answer, or there are too many
partitions for one answer."""

from raftlog.values.value import Count, NodeNumber, Value


class AllowedOperations(Value, frozen=True):
    """Operations on the cluster that a user may perform."""

    describe_cluster: bool
    alter_cluster: bool
    describe_cluster_configs: bool
    alter_cluster_configs: bool
    create_topics: bool


class ConsoleSession(Value, frozen=True, kw_only=True):
    """User, broker and allowed operations. `user`: None without a login. `time_ms`: the broker's clock."""

    principal: str
    user: str | None
    node_id: NodeNumber
    cluster_id: str
    version: str
    time_ms: Count
    is_ready: bool
    writes_allowed: bool
    has_authorization: bool
    may: AllowedOperations
