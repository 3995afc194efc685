"""Framework for a replicated state machine on the partitions of an internal topic.

    partition of the key  →  its leader has the coordinator  →  the coordinator folds the log, decides, and appends

`coordinators` begins and ends a coordinator for each partition that is led here; `router` sends requests to it from any
broker; `log` and `folded` are its log; `maintenance` expires entries and shortens the log. Consumer groups (`groups`)
are the first machine on it; a second one subclasses `PartitionCoordinator` and `FoldedLog` and declares its
`CoordinatorOperation`s."""

assert __name__.startswith("raftlog."), "import this room as raftlog.partitions.coordinator"
