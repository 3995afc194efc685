"""Membership: SWIM with the Lifeguard refinements. The room is reserved; a single broker needs no gossip."""

assert __name__.startswith("raftlog."), "import this room as raftlog.membership"
