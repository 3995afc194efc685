"""Replay of archives into topics: `raftlog.pipeline.replay`.

`job` is the entry point, `rounds` has the order and progress of a replay, `steps` its rows as Spark reads them. Used
through the public names of `raftlog.pipeline`."""
