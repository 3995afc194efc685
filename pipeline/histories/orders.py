"""What `raftlog.checkers.offset_order` judges, as SQL: the order of offsets agrees with real time.

A send has to end above the floor of its invocation, the greatest offset that was known then. Its values count one by
one while nobody has answered it (a poll showed them), and together when it is acknowledged.
"""

from typing import Final

SENDS: Final = """
    with ended as (
        select run, partition, polled_open.offset as offset, polled_open.seq as seq, floor, witness, own_offset,
            own_witness, invoked
        from {sends} where polled_open.offset <= floor
        union all
        select run, partition, min(acked.offset), acked.seq, floor, witness, own_offset, own_witness, invoked
        from {sends} where acked is not null
        group by run, partition, acked.seq, floor, witness, own_offset, own_witness, invoked
        having min(acked.offset) <= floor and count_if(polled_open is null) > 0
    ), judged as (
        select *, coalesce(offset <= own_offset, false) as is_own from ended
    )
    select run, if(is_own, 'nonmonotonic-send', 'offset-order') as anomaly, seq,
        concat(partition, ' offset ', if(is_own, own_offset, floor), ' was known before a send that got offset ',
            offset) as what,
        array(if(is_own, own_witness, witness), invoked, seq) as proof
    from judged
"""

INSIDE_SENDS: Final = """
    select run, 'int-nonmonotonic-send' as anomaly, seq,
        concat('one send to ', partition, ' got offset ', step.first, ' for a value behind that of offset ',
            step.last) as what,
        array(seq) as proof
    from {parts} lateral view explode(
        zip_with(slice(offsets, 1, size(offsets) - 1), slice(offsets, 2, size(offsets) - 1),
            (one, other) -> struct(one as last, other as first))) as step
    where kind = 'send' and type = 'ok' and size(offsets) > 1 and step.first <= step.last
"""

STALE_ENDS: Final = """
    select run, 'stale-end' as anomaly, answer.seq as seq,
        concat(partition, ' ended at ', answer.end, ' for a linearizable list; offset ', offset,
            ' was known before it') as what,
        array(witness, answer.seq) as proof
    from {floors} where answer.end <= offset
"""

TRIMS_UNDONE: Final = """
    select run, 'trim-undone' as anomaly, answer.seq as seq,
        concat(partition, ' began at ', begin, ', and at ', answer.begin, ' for a linearizable list later') as what,
        array(begin_witness, answer.seq) as proof
    from {floors} where answer.current and answer.begin < begin
    union all
    select run, 'trim-undone', ended.seq,
        concat(partition, ' was to begin at ', begin, ', and begins at ', ended.begin), array(seq, ended.seq)
    from {trims} where ended.type = 'ok' and ended.begin < begin
"""
"""As `LogStarts` in `raftlog.checkers.going_back` judges."""
