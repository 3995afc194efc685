"""Descriptions of the cluster without the topics that their reader may not describe."""

import hashlib
from asyncio import to_thread
from collections.abc import Collection, Sequence
from typing import Final

import orjson

from raftlog.api.http.server.permissions import Visibility
from raftlog.partitions.gossip.cluster_map import RenderedMap
from raftlog.values.brokers import BrokerDescription, ClusterHealth

_TAG_BYTES: Final = 12


def visible_health(found: ClusterHealth, visible: Visibility, topics: Collection[str]) -> ClusterHealth:
    """Return the health without the names of partitions that the caller may not see; the counts include them."""
    return found.copy_with(
        unhealthy_reasons=visible.texts(found.unhealthy_reasons, topics),
        notes=visible.texts(found.notes, topics),
        leaderless_partitions=visible.partitions(found.leaderless_partitions),
        under_replicated_partitions=visible.partitions(found.under_replicated_partitions),
        lagging_partitions=visible.partitions(found.lagging_partitions),
        electing_partitions=visible.partitions(found.electing_partitions),
    )


def visible_brokers(
    found: Sequence[BrokerDescription], visible: Visibility, topics: Collection[str]
) -> list[BrokerDescription]:
    """Return the brokers; a fixed text replaces a problem that names a partition of a hidden topic."""
    return [
        each if not each.problem else each.copy_with(problem=visible.texts((each.problem,), topics)[0])
        for each in found
    ]


async def visible_map(picture: RenderedMap, visible: Visibility) -> RenderedMap:
    """Return the map of the cluster without topics that the caller may not see, with a tag of its own."""
    view = await to_thread(orjson.loads, picture.body)
    shown = [topic for topic in view["topics"] if visible.has_topic(topic["name"])]
    if len(shown) == len(view["topics"]):
        return picture
    body = await to_thread(orjson.dumps, view | {"topics": shown})
    return RenderedMap(body, hashlib.blake2b(body, digest_size=_TAG_BYTES).hexdigest())
