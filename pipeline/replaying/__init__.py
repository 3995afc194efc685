"""Archives back into topics: `raftlog.pipeline.replay`.

`job` is what users call, `rounds` what is replayed and how far that is, `steps` its rows as Spark reads them. Who may
come in: the public names of `raftlog.pipeline`.
"""
