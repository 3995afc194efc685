"""Tests of the Raft core, with a cluster in one process (`cluster`) and checks of its invariants (`invariants`)."""
