"""Tables that several judges read, made from the parts of entries; `judging` makes each of them once.

    lists      answers to `list`, with the invocation of each: when it was asked, and whether linearizable
    trims      deletions of records, with what became of each, and where the log began since
    books      of each partition: log start and end as far as they were told, up to where its beginning may be gone,
               how far anybody polled, since when it is compacted. One row per partition, so joins send it to every task
    values     of each value of a partition: its send and what became of it, and the first entry and poll that showed it
    places     of each value at each offset: the first entry that showed it there (`first`), and which value was there
               before all others (`held`, shown by `witness`)
    sends      each value with the floor of its send
    gaps       partitions that lack more offsets than sends of unknown outcome could explain, as `density` counts them
    floors     when something was asked for (a send, a linearizable list): the greatest offset known before, by whom

The order of everything is that of the history: (`seq`, `part`, `pos`) names a record in an entry. `run` is part of
every key, so that many histories are judged at once. Only `lists`, `floors` and books of a partition's entries sort
a whole partition in one task; they hold a row per entry, not per record, and spill.
"""

from typing import Final

LISTS: Final = """
    select run, seq, part, process, partition, begin, end, current, asked.seq as asked, asked.current as asked_current
    from (
        select *, last(if(type = 'invoke', struct(seq, current), null), true) over (
            partition by run, process order by seq, part rows between unbounded preceding and current row) as asked
        from {parts} where kind = 'list'
    ) where type = 'ok' and partition is not null
"""

TRIMS: Final = """
    select run, seq, process, partition, begin, ended
    from (
        select *, lead(struct(seq, type, begin)) over (partition by run, process order by seq, part) as ended
        from {parts} where kind in ('trim', 'crash')
    ) where type = 'invoke' and partition is not null
"""
"""`ended` is null for one that never did; a crash ends one as unknown."""

BOOKS: Final = """
    select b.*, greatest(b.begin, t.begin) as begin_max
    from (
        select run, partition,
            greatest(0, max(begin) filter (where type = 'ok' and kind in ('list', 'trim'))) as begin,
            greatest(0, max(end) filter (where type = 'ok' and kind = 'list')) as end,
            max(struct(array_max(offsets) + 1 as end, -seq as before))
                filter (where type = 'ok' and kind = 'poll' and size(offsets) > 0) as polled,
            min(seq) filter (where type = 'invoke' and size(keys) > 0) as compacted
        from {parts} where partition is not null and kind in ('list', 'trim', 'poll', 'send')
        group by run, partition
    ) b left join (
        select run, partition, max(begin) as begin from {trims}
        where ended is null or ended.type = 'info' group by run, partition
    ) t on b.run = t.run and b.partition = t.partition
"""

SHOWN: Final = """
    select run, partition, seq, part, pos, process, type, kind, each.values as value, each.keys as key,
        if(type = 'ok', each.offsets, null) as offset,
        array_contains(tombstones, each.values) as gone
    from {parts} lateral view posexplode(arrays_zip(values, offsets, keys)) as pos, each
    where kind = 'send' or (kind = 'poll' and type = 'ok')
"""
"""Records as entries name them: those of sends, and those that polls returned."""

VALUES: Final = """
    with opened as (
        select *,
            min(if(kind = 'send' and type = 'invoke', seq, null)) over whole as invoked,
            min(if(kind = 'send' and type in ('ok', 'fail'), seq, null)) over whole as closed
        from {shown} window whole as (partition by run, partition, value)
    )
    select run, partition, value, first(invoked) as invoked,
        max(seq) filter (where kind = 'send' and type = 'invoke') as invoked_again,
        min(seq) filter (where kind = 'send' and type <> 'invoke') as completed,
        max(struct(seq, type)) filter (where kind = 'send') as outcome,
        min(seq) filter (where kind = 'send' and type = 'fail') as failed,
        min(struct(seq, offset)) filter (where kind = 'send' and type = 'ok') as acked,
        min(struct(seq, part, pos, offset)) filter (where offset is not null) as first,
        min(struct(seq, offset)) filter (where kind = 'poll') as polled,
        min(struct(seq, part, pos, offset))
            filter (where kind = 'poll' and seq > invoked and (closed is null or seq < closed)) as polled_open,
        max(key) as key, coalesce(bool_or(gone), false) as gone
    from opened group by run, partition, value
"""
"""`polled_open` is the first poll of a value while its send had no definite end; `outcome` the last word about it."""

PLACES: Final = """
    select *,
        row_number() over at_offset as number,
        first(value) over at_offset as held,
        first(first.seq) over at_offset as witness
    from (
        select run, partition, offset, value, min(struct(seq, part, pos)) as first
        from {shown} where offset is not null group by run, partition, offset, value
    ) window at_offset as (partition by run, partition, offset order by first)
"""

FLOORS: Final = """
    with steps as (
        select run, partition, seq, process, null as answer, kind = 'send' and type = 'invoke' as is_send,
            case when type = 'ok' and kind in ('send', 'poll') then array_max(offsets)
                when type = 'ok' and kind = 'list' and end > 0 then end - 1 end as shown,
            if(type = 'ok' and kind = 'send', array_max(offsets), null) as own,
            if(type = 'ok' and (kind = 'trim' or (kind = 'list' and current)), begin, null) as begin
        from {parts}
        where partition is not null and (type = 'ok' and kind in ('send', 'poll', 'list', 'trim')
            or type = 'invoke' and kind = 'send')
        union all
        select run, partition, asked, process, struct(seq, begin, end, current), false, null, null, null
        from {lists} where asked_current
    ), floored as (
        select *,
            max(if(shown is null, null, struct(shown as offset, -seq as before))) over everybody as floor,
            max(if(begin is null, null, struct(begin as offset, -seq as before))) over everybody as began,
            max(if(own is null, null, struct(own as offset, -seq as before))) over itself as own_floor
        from steps
        window everybody as (partition by run, partition order by seq rows between unbounded preceding and current row),
            itself as (partition by run, partition, process order by seq
                rows between unbounded preceding and current row)
    )
    select run, partition, seq, answer, floor.offset as offset, -floor.before as witness,
        own_floor.offset as own_offset, -own_floor.before as own_witness,
        began.offset as begin, -began.before as begin_witness
    from floored where is_send or answer is not null
"""
"""`begin` is where the log began for everybody, by answers to trims and linearizable lists."""

SENDS: Final = """
    select v.run, v.partition, v.invoked, v.acked, v.polled_open, f.offset as floor, f.witness, f.own_offset,
        f.own_witness
    from {values} v join {floors} f
        on v.run = f.run and v.partition = f.partition and v.invoked = f.seq and f.answer is null
    where f.offset is not null
"""

GAPS: Final = """
    with known as (
        select p.run, p.partition, greatest(first(b.begin), min(p.offset)) as low,
            greatest(first(b.end), max(p.offset) + 1) as end, max(struct(p.offset, p.witness)) as high,
            count_if(p.offset >= b.begin) as present
        from {places} p join {books} b on p.run = b.run and p.partition = b.partition
        where p.number = 1 and b.compacted is null and p.partition not like '%@%'
        group by p.run, p.partition
    ), open as (
        select run, partition, count(*) as unknown from {values}
        where outcome.type in ('invoke', 'info') and first is null group by run, partition
    )
    select k.*, k.end - k.low - k.present as missing, coalesce(o.unknown, 0) as unknown
    from known k left join open o on k.run = o.run and k.partition = o.partition
    where k.end - k.low - k.present > coalesce(o.unknown, 0)
"""
"""`low` and `end` are the range that has to be full."""
