"""Simulation of gossip alone: many `raftlog.membership.swim` machines on one virtual clock.

`world` is the clock and the network, `process` one member, `nemesis` their faults, `watch` the checks, `run` one seed.
`jepsen.simulation.campaign` and `bench` call `run`.

Messages travel as values, for speed: their size is what `membership.encoding` counts for them (exact for claims, an
upper bound that is at most 6 bytes too high for pings and acks), and one datagram in 64 is really encoded, measured
and decoded. The seal of `membership.authentication` counts with its bytes. Each frame of a
stream takes one delay. It is lost if one of its segments or acknowledgements would be lost: there are no
retransmissions as in TCP."""
