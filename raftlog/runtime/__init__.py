"""Replicas at run time: the group log (Raft's view of a storage log), the journal, and the driver.

The driver is the one place that does persist → send → apply → advance. Simulator and server use it unchanged, over a
transport protocol and the file protocol. Higher layers import from the modules below."""
