"""All measures, in the order in which they run."""

from bench import (
    artemis,
    catch_up,
    clients,
    cluster_http,
    cluster_life,
    compaction,
    elasticity,
    facade,
    footprint,
    gossip,
    gossip_deaths,
    group_commit,
    groups,
    http_batches,
    http_fetch,
    http_produce,
    journal,
    library_append,
    library_read,
    ndjson_ingest,
    peers,
    raft_core,
    reopen,
    repair,
    replication,
    rolling_restart,
    scrape,
    slow_disk,
)
from bench.measure import Measure

MEASURES: tuple[Measure, ...] = (
    *library_append.MEASURES,
    *group_commit.MEASURES,
    *library_read.MEASURES,
    *reopen.MEASURES,
    *raft_core.MEASURES,
    *gossip.MEASURES,
    *journal.MEASURES,
    *replication.MEASURES,
    *facade.MEASURES,
    *cluster_http.MEASURES,
    *clients.MEASURES,
    *cluster_life.MEASURES,
    *elasticity.MEASURES,
    *gossip_deaths.MEASURES,
    *artemis.MEASURES,
    *slow_disk.MEASURES,
    *catch_up.MEASURES,
    *repair.MEASURES,
    *compaction.MEASURES,
    *rolling_restart.MEASURES,
    *groups.MEASURES,
    *ndjson_ingest.MEASURES,
    *http_produce.MEASURES,
    *http_batches.MEASURES,
    *http_fetch.MEASURES,
    *footprint.MEASURES,
    *scrape.MEASURES,
    *peers.MEASURES,
)


def chosen(names: tuple[str, ...]) -> list[Measure]:
    """Measures by name, or by the beginning of it (`http` is all that start so); all without names.

    Raises `ValueError` with the names that there are.
    """
    for name in names:
        if not any(measure.name.startswith(name) for measure in MEASURES):
            known = ", ".join(measure.name for measure in MEASURES)
            raise ValueError(f"there is no measure {name!r}; the measures are {known}")
    return [measure for measure in MEASURES if not names or measure.name.startswith(names)]
