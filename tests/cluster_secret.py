"""Secret shared by the brokers that tests start in their own process."""

from raftlog.cluster_secret import ClusterSecret

SECRET = ClusterSecret((b"shared by the brokers of one test",))
