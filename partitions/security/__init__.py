"""Users, permissions and quotas of a cluster, on one broker."""
