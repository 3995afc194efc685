"""What `raftlog.checkers.polls` judges of a dense log, as SQL: a consumer sees records in order, and passes over none.

An *epoch* of a process begins with each `assign`, `subscribe` and crash; positions of one say nothing of the next.
In an epoch the steps of a partition are its records' first and last offsets, poll by poll, behind the offset at which
an `assign` put it. `unknown` counts polls without an answer: one between two steps may have moved the consumer on.
"""

from typing import Final

STEPS: Final = """
    with timed as (
        select run, process, seq, part, partition, kind, type, offsets, begin,
            count_if(part = 0 and kind in ('assign', 'subscribe', 'crash')) over so_far as epoch,
            coalesce(last(
                case when kind = 'subscribe' then true
                    when kind = 'crash' or (kind = 'assign' and type = 'ok') then false end, true) over so_far, false
            ) as is_subscribed,
            count_if(kind = 'poll' and type = 'info' and part = 0) over so_far as unknown
        from {parts}
        where (kind in ('assign', 'subscribe') and type in ('ok', 'info')) or (kind = 'crash' and type <> 'invoke')
            or (kind = 'poll' and (type = 'info' or (type = 'ok' and size(offsets) > 0)))
        window so_far as (
            partition by run, process order by seq, part rows between unbounded preceding and current row)
    ), steps as (
        select run, process, seq, part, partition, epoch, unknown, kind,
            if(kind = 'poll', offsets[0], null) as first,
            if(kind = 'poll', element_at(offsets, -1), begin - 1) as last
        from timed
        where not is_subscribed and partition is not null and type = 'ok'
            and ((kind = 'assign' and begin is not null) or (kind = 'poll' and size(offsets) > 0))
    ), compared as (
        select *, lag(struct(seq, last, unknown)) over (
            partition by run, process, epoch, partition order by seq, part) as before
        from steps
    )
    select c.run, if(c.first <= c.before.last, 'nonmonotonic-poll', 'poll-skip') as anomaly, c.seq,
        if(c.first <= c.before.last,
            concat('process ', c.process, ' polled ', c.partition, ' offset ', c.first, ' after it was at ',
                c.before.last),
            concat('process ', c.process, ' went from ', c.partition, ' offset ', c.before.last, ' to ', c.first,
                '; offsets between were skipped')) as what,
        array(c.before.seq, c.seq) as proof
    from compared c join {books} b on c.run = b.run and c.partition = b.partition
    where c.kind = 'poll' and c.before is not null and c.first <> c.before.last + 1
        and (c.first <= c.before.last
            or (c.unknown = c.before.unknown and (b.compacted is null or b.compacted > c.seq)))
"""

INSIDE_POLLS: Final = """
    select p.run, if(p.step.first <= p.step.last, 'int-nonmonotonic-poll', 'int-poll-skip') as anomaly, p.seq,
        if(p.step.first <= p.step.last,
            concat('one poll of ', p.partition, ' returned offset ', p.step.first, ' after ', p.step.last),
            concat('process ', p.process, ' went from ', p.partition, ' offset ', p.step.last, ' to ', p.step.first,
                '; offsets between were skipped')) as what,
        array(p.seq) as proof
    from (
        select run, process, seq, partition, step
        from {parts} lateral view explode(
            zip_with(slice(offsets, 1, size(offsets) - 1), slice(offsets, 2, size(offsets) - 1),
                (one, other) -> struct(one as last, other as first))) as step
        where kind = 'poll' and type = 'ok' and size(offsets) > 1 and step.first <> step.last + 1
    ) p join {books} b on p.run = b.run and p.partition = b.partition
    where p.step.first <= p.step.last or b.compacted is null or b.compacted > p.seq
"""
