"""Checks with unmodified Kafka client programs, installed from package registries, against three brokers.

`python -m clients` installs each program below `.venv/clients`, starts a cluster through `raftlog.testing`, runs the
program's checks, with faults during some of them, and prints one row for each check. Module `packages` installs the
programs, `faults` has the faults, and the modules with `CHECKS` have the checks; those of `secured` run against
`secure_cluster`. `bench.race` uses `packages`, `java` and `kafka_broker` too. Nothing here is part of the wheel."""
