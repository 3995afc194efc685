"""Checks with unmodified Kafka client programs, installed from package registries, against three brokers.

`python -m clients` installs each program below `.venv/clients`, starts a cluster through `raftlog.testing`, runs the
program's checks, with faults during some of them, and prints one row for each check. `packages` installs, `kafka_tools`
and `programs` hold the checks, `faults` the faults. `bench.race` shares `packages` and `java`. Nothing here is part of
the wheel."""
