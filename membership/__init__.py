"""Membership: who is there, by SWIM with the Lifeguard refinements. A hint about addresses and liveness, never more.

The core is pure: `swim` (the machine), `view` (what is believed), `states` (the table), `messages`, `encoding` and the
pieces beside them take messages and the time, and give messages and changes. `agent`, `wire` and `authentication` carry
them over UDP and TCP. `raftlog.partitions.gossip` runs an agent in a broker, the simulator runs machines by themselves;
nothing else comes in. No safety argument mentions this room, and no voter set follows from it (docs/MEMBERSHIP.md).
"""

assert __name__.startswith("raftlog."), "import this room as raftlog.membership"
