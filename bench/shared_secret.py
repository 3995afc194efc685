"""Cluster secret of the processes of one measurement; they run only during it, and listen only on loopback."""

from raftlog.cluster_secret import ClusterSecret

SECRET = ClusterSecret((b"shared by what is measured together",))
