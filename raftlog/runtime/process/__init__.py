"""All replicas of one process: the driver, the journal's writer, checkpoints, time."""
