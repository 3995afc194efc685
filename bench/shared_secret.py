"""Secret that the processes of one measurement share; they listen on loopback only, for as long as it lasts."""

from raftlog.cluster_secret import ClusterSecret

SECRET = ClusterSecret((b"shared by what is measured together",))
