"""Transactions of producers: the second machine on coordinators (`partitions.coordinator`), of `__transaction_state`.

    transitions    rules for one transactional id's record, pure       coordinator    decides, stores, sends markers
    service        transactions through any broker                     operations     requests to coordinators

Markers are written by the leaders of partitions and by the coordinators of consumer groups. Called by the broker."""

assert __name__.startswith("raftlog."), "import this package as raftlog.partitions.transactions"
