"""Replay of archives into topics: `raftlog.pipeline.replay`.

`job` is the entry point, `rounds` has the order and progress of a replay, `steps` the data source of its rows. Used
through the public names of `raftlog.pipeline`."""
