"""The secret that brokers inside the process of a test share."""

from raftlog.cluster_secret import ClusterSecret

SECRET = ClusterSecret((b"shared by the brokers of one test",))
