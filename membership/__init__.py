"""Membership by SWIM with the Lifeguard refinements: a hint about addresses and liveness, never more.

The core is pure: `swim` (the state machine), `view` (states of all members), `states` (the table), `messages`,
`encoding` and other modules without I/O take messages and the time, and return messages and changes. `agent`, `wire`
and `authentication` carry messages over UDP and TCP. `raftlog.partitions.gossip` runs an agent in a broker; the
simulator runs state machines without an agent. No safety argument depends on this package, and no voter set follows
from its results (docs/MEMBERSHIP.md)."""

assert __name__.startswith("raftlog."), "import this room as raftlog.membership"
