"""Brokers of two releases in one cluster."""

import sys
from collections.abc import Callable

from raftlog import __version__
from raftlog.testing import Cluster
from tests.integration.cluster_load import Load, check, create_topic
from tests.upgrade.conftest import OLD, version_of


def test_one_by_one_to_this_release_and_back(old_cluster: Callable[..., Cluster], old_python: str) -> None:
    cluster = old_cluster()
    create_topic(cluster.addresses[0], "t", 3)
    with Load(cluster, "t", partitions=3) as ledger:
        for python, version in ((sys.executable, __version__), (old_python, OLD)):
            for number, node in cluster.nodes.items():
                ledger.wait_for_more(50)
                node.stop()
                node.python = python
                node.start()
                cluster.wait_healthy()
                assert version_of(cluster, number) == version
        ledger.wait_for_more(50)
    check(cluster, ledger, 3)
