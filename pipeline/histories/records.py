"""What `raftlog.checkers.records` and `density` judge, as SQL: which value was sent, which offset it has, who saw it.

Each query gives anomalies: (`run`, `anomaly`, `seq` of the entry that shows it, `what`, `proof`: sequences of entries).
Definitions are in the docstrings of those modules; here only what makes a table of them.
"""

from typing import Final

INCONSISTENT: Final = """
    select run, 'inconsistent-offset' as anomaly, first.seq as seq,
        concat(partition, ' offset ', offset, ' held ', held, ' and ', value) as what,
        array(witness, first.seq) as proof
    from {places} where number > 1
"""
"""Every further value of an offset."""

SEEN_TWICE: Final = """
    with claims as (
        select run, 'duplicate' as anomaly, partition, before.offset as offset, first.seq as seq,
            concat(partition, ' value ', value, ' stands at offsets ', before.offset, ' and ', offset) as what,
            cast(null as bigint) as failed, cast(null as bigint) as shown
        from (
            select *, row_number() over at_value as turn,
                first(struct(offset)) over at_value as before
            from {places} window at_value as (partition by run, partition, value order by first)
        ) where turn > 1
        union all
        select run, 'aborted-read', partition, first.offset, greatest(failed, first.seq),
            concat(partition, ' value ', value, ' definitely failed, and yet it was seen'),
            failed, if(first.seq > failed, first.seq, null)
        from {values} where failed is not null and first is not null
    )
    select c.run, c.anomaly, c.seq, c.what,
        array(coalesce(c.shown, p.witness), coalesce(c.failed, c.seq)) as proof
    from claims c join {places} p
        on c.run = p.run and c.partition = p.partition and c.offset = p.offset and p.number = 1
"""
"""Values that were seen where or when they must not be; both are proved by the entry that showed their first offset,
unless it was after a send had definitely failed."""

PHANTOMS: Final = """
    select run, 'phantom' as anomaly, polled.seq as seq,
        concat(partition, ' showed ', value, ' before anybody sent it') as what, array(polled.seq) as proof
    from {values} where polled is not null and (invoked is null or polled.seq < invoked)
"""

UNSEEN: Final = """
    with candidates as (
        select v.run, v.partition, v.value, v.key, v.acked, b.polled
        from {values} v join {books} b on v.run = b.run and v.partition = b.partition
        where v.acked is not null and v.outcome.type = 'ok' and v.polled is null and not v.gone
            and v.acked.offset >= b.begin_max
    ), newest as (
        select run, partition, key, max(first.offset) as offset from {values} where key is not null
        group by run, partition, key
    )
    select c.run, if(c.acked.offset < c.polled.end, 'lost-write', 'unseen') as anomaly, c.acked.seq as seq,
        concat(c.partition, ' value ', c.value, ' was acknowledged at offset ', c.acked.offset,
            if(c.acked.offset < c.polled.end, concat(' and never polled; offset ', c.polled.end - 1, ' was'),
                '; no poll got so far')) as what,
        array(c.acked.seq, -c.polled.before) as proof
    from candidates c left join newest n on c.run = n.run and c.partition = n.partition and c.key = n.key
    where (n.offset is null or c.acked.offset >= n.offset) and c.partition not like '%@%'
"""
"""Acknowledged, not excused by retention or compaction, and never polled; but for topics that come and go (`name@id`),
of which it is not known here which are gone."""

GAPS: Final = """
    with points as (
        select g.run, g.partition, p.offset, p.witness
        from {gaps} g join {places} p
            on g.run = p.run and g.partition = p.partition and p.number = 1 and p.offset >= g.low
        union all select run, partition, explode(array(low - 1, end)), null from {gaps}
    ), holes as (
        select *, row_number() over in_order as number
        from (
            select *, lag(struct(offset, witness)) over in_order as before from points
            window in_order as (partition by run, partition order by offset)
        ) where offset > before.offset + 1
        window in_order as (partition by run, partition order by offset)
    ), shown as (
        select run, partition, min(struct(offset, before.witness)).witness as witness,
            slice(flatten(array_sort(collect_list(
                sequence(before.offset + 1, least(offset - 1, before.offset + 5))))), 1, 5) as holes
        from holes where number <= 5 group by run, partition
    )
    select g.run, 'gap' as anomaly, g.high.witness as seq,
        concat(g.partition, ': ', g.missing, ' offsets between ', g.low, ' and ', g.end,
            ' (exclusive) belong to nobody (', array_join(transform(s.holes, hole -> string(hole)), ', '),
            if(g.missing > size(s.holes), ', …', ''), '); only ', g.unknown,
            ' values of unknown outcome could be there') as what,
        array(s.witness, g.high.witness) as proof
    from {gaps} g join shown s on g.run = s.run and g.partition = s.partition
"""
"""`points` are the known offsets of a partition with one before and one behind the range that has to be full."""
