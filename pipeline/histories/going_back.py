"""What `raftlog.checkers.going_back` judges of lists and groups, as SQL: numbers that never fall.

Groups are judged as `Rules` have it by default: commits move forward, but for groups whose members or operators commit.
"""

from typing import Final

LISTED: Final = """
    with told as (
        select run, process, seq, partition, begin, end,
            max(struct(begin as offset, seq)) over before as begin_before,
            max(struct(end as offset, seq)) over before as end_before
        from {lists} window before as (
            partition by run, process, partition order by seq, part rows between unbounded preceding and 1 preceding)
    )
    select run, 'start-went-back' as anomaly, seq,
        concat('process ', process, ' was told ', partition, ' start ', begin, ' after ', begin_before.offset) as what,
        array(begin_before.seq, seq) as proof
    from told where begin < begin_before.offset
    union all
    select run, 'end-went-back', seq,
        concat('process ', process, ' was told ', partition, ' end ', end, ' after ', end_before.offset),
        array(end_before.seq, seq)
    from told where end < end_before.offset
"""

COMMITTED: Final = """
    with asked as (
        select *, last(if(type = 'invoke', seq, null), true) over (
            partition by run, process order by seq, part rows between unbounded preceding and current row) as asked
        from {parts} where kind = 'committed'
    ), unordered as (
        select run, team, min(seq) as since from {parts}
        where kind = 'commit' and type = 'invoke' and member <> '' group by run, team
    ), steps as (
        select run, team, partition, seq, begin as offset, null as answer from {parts}
        where kind in ('commit', 'committed') and type = 'ok' and begin is not null
        union all
        select run, team, partition, asked, null, struct(seq, begin as offset) from asked
        where type = 'ok' and partition is not null
    ), floored as (
        select *, max(if(offset is null, null, struct(offset, -seq as before))) over (
            partition by run, team, partition order by seq rows between unbounded preceding and current row) as floor
        from steps
    )
    select f.run, 'committed-went-back' as anomaly, f.answer.seq as seq,
        concat('group ', f.team, ' ', f.partition, ' was at ', f.floor.offset, ' and later at ',
            coalesce(string(f.answer.offset), 'None')) as what,
        array(-f.floor.before, f.answer.seq) as proof
    from floored f left join unordered u on f.run = u.run and f.team = u.team
    where f.answer is not null and f.floor is not null
        and (f.answer.offset is null or f.answer.offset < f.floor.offset)
        and (u.since is null or u.since > f.answer.seq)
"""
"""`asked` is when a read began: what had been committed or read until then is its floor."""

PHANTOM_COMMITS: Final = """
    with tried as (
        select run, team, partition, seq, type, kind, begin as offset,
            sum(case when kind = 'commit' and type = 'invoke' then 1 when kind = 'commit' and type = 'fail' then -1
                else 0 end) over so_far as attempts,
            min(if(kind = 'committed', seq, null)) over so_far as shown
        from {parts} left anti join (select distinct run, team from {parts} where kind = 'handle') using (run, team)
        where begin is not null and (kind = 'commit' and type in ('invoke', 'fail')
            or kind = 'committed' and type = 'ok')
        window so_far as (partition by run, team, partition, begin order by seq, part
            rows between unbounded preceding and current row)
    )
    select run, 'phantom-commit' as anomaly, seq,
        concat('group ', team, ' ', partition, if(kind = 'committed', ' is at ', ' was at '), offset,
            if(kind = 'committed', ', which nobody committed', ', and every commit of that definitely failed')) as what,
        array(if(kind = 'committed', seq, shown), seq) as proof
    from tried where attempts = 0 and shown is not null
"""
"""`attempts` at an offset that are not known to have failed."""
