"""What runs a replica: the group log (Raft's view of a storage log), the journal, and the driver.

The driver is the one place that does persist → send → apply → advance. It is used unchanged by the simulator and the
server, over a transport protocol and the file protocol. Callers from above import from the modules below.
"""
