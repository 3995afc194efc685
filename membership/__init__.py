"""Membership by SWIM with the Lifeguard refinements: a hint about addresses and liveness, never more.

The core is pure: `swim` (the machine), `view` (states of all members), `states` (the table), `messages`, `encoding`
and the pieces beside them take messages and the time, and return messages and changes. `agent`, `wire` and
`authentication` carry them over UDP and TCP. `raftlog.partitions.gossip` runs an agent in a broker, the simulator runs
machines by themselves; nothing else is imported here. No safety argument mentions this package, and no voter set
follows from it (docs/MEMBERSHIP.md)."""

assert __name__.startswith("raftlog."), "import this room as raftlog.membership"
