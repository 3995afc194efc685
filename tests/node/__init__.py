"""Tests of a process of a cluster."""
