"""Histories that are none, as SQL: what several entries together prove. What one entry proves is in `parts`.

A process has one operation under way, a completion follows its invocation, a value is sent once and completed by a send
that offered it. `what` is said of the entry `seq`; `judging` asks before anything else, and refuses the history.
"""

from typing import Final

UNREADABLE: Final = """
    select run, 'unreadable' as anomaly, seq, problem as what, array() as proof from {parts} where problem is not null
"""

UNPAIRED: Final = """
    select run, 'malformed' as anomaly, seq,
        if(type = 'invoke', concat('process ', process, ' has two operations under way'),
            'a completion without its invocation') as what,
        array(seq) as proof
    from (
        select *, lag(struct(type, kind)) over (partition by run, process order by seq) as before
        from {parts} where part = 0 and problem is null
    )
    where if(type = 'invoke', before.type = 'invoke',
        kind <> 'crash' and (before is null or before.type <> 'invoke' or before.kind <> kind))
"""

MISSENT: Final = """
    select run, 'malformed' as anomaly, if(invoked_again > invoked, invoked_again, completed) as seq,
        if(invoked_again > invoked, concat('value ', value, ' is sent twice; values are unique per partition'),
            concat('value ', value, ' completes a send that did not offer it')) as what,
        array(if(invoked_again > invoked, invoked_again, completed)) as proof
    from {values} where invoked_again > invoked or completed < coalesce(invoked, completed + 1)
"""
