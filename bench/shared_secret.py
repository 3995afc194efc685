"""Cluster secret of the processes of one measurement, which listen only on loopback while it lasts."""

from raftlog.cluster_secret import ClusterSecret

SECRET = ClusterSecret((b"shared by what is measured together",))
