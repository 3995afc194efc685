"""Simulation of gossip alone: many `raftlog.membership.swim` machines on one virtual clock.

`world` is the clock and the network, `process` one member, `nemesis` their faults, `watch` the checks, `run` one seed.
`jepsen.simulation.campaign` and `bench` come in by `run`.

Messages travel as values, for speed: their size is what `membership.encoding` counts for them (exact for claims, an
upper bound that is at most 6 bytes too high for pings and acks), and one datagram in 64 is really encoded, measured
and decoded. The seal of `membership.authentication` counts with its bytes. A stream is two frames or more that each
take one delay and are lost, without another try, when a segment or its acknowledgement would be: worse than TCP.
"""
