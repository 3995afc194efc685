"""Checks with unmodified Kafka client programs, installed from package registries, against three brokers.

`python -m clients` installs each program below `.venv/clients`, starts a cluster through `raftlog.testing`, runs the
program's checks, with faults during some of them, and prints one row for each check. `packages` installs, `faults` has
the faults, and the modules with `CHECKS` the checks; those of `secured` run against `secure_cluster`. `bench.race`
shares `packages`, `java` and `kafka_broker`. Nothing here is part of the wheel."""
