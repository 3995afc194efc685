"""Tests of the Raft core, and what they share: a cluster in one process (`cluster`), what must hold (`invariants`)."""
