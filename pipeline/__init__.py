"""The data pipeline on Spark. The room is reserved; it is installed with the extra `pipeline`."""

assert __name__.startswith("raftlog."), "import this room as raftlog.pipeline"
