"""What `raftlog.checkers.sequences` judges, as SQL: numbers of an idempotent producer rise with the offsets, without
holes where somebody has read."""

from typing import Final

SEQUENCES: Final = """
    with numbered as (
        select run, partition, producer, each.number as number, max_by(each.value, seq) as value
        from (
            select run, partition, producer, seq,
                explode(transform(values, (value, at) -> struct(number + at as number, value))) as each
            from {parts} where kind = 'send' and type = 'invoke' and producer is not null
        ) group by run, partition, producer, each.number
    ), known as (
        select n.*, v.first.offset as offset,
            lag(struct(n.number, v.first.offset)) over (
                partition by n.run, n.partition, n.producer order by n.number) as before
        from numbered n join {values} v on n.run = v.run and n.partition = v.partition and n.value = v.value
        where v.first is not null
    ), judged as (
        select k.*, k.offset <= k.before.offset as is_back
        from known k join {books} b on k.run = b.run and k.partition = b.partition
        where k.offset <= k.before.offset
            or (k.number > k.before.number + 1 and b.compacted is null and k.before.offset >= b.begin
                and k.offset < b.polled.end)
    )
    select j.run, if(j.is_back, 'sequence-order', 'sequence-gap') as anomaly, p.witness as seq,
        concat(j.partition, ' of producer ', j.producer, ': number ', j.number,
            if(j.is_back,
                concat(' stands at offset ', j.offset, ', and ', j.before.number, ' at ', j.before.offset),
                concat(' follows ', j.before.number, ' at offsets ', j.before.offset, ' and ', j.offset, '; ',
                    j.before.number + 1, ' is missing'))) as what,
        array(q.witness, p.witness) as proof
    from judged j
        join {places} p on j.run = p.run and j.partition = p.partition and j.offset = p.offset and p.number = 1
        join {places} q on j.run = q.run and j.partition = q.partition and j.before.offset = q.offset and q.number = 1
"""
