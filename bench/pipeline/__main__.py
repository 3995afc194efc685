"""Entry point `python -m bench.pipeline`: the measures of Spark jobs."""

import bench.pipeline.archive
import bench.pipeline.batch_read
import bench.pipeline.scaling
import bench.pipeline.sink
import bench.pipeline.verification
from bench.command import main

MEASURES = (
    *bench.pipeline.batch_read.MEASURES,
    *bench.pipeline.archive.MEASURES,
    *bench.pipeline.sink.MEASURES,
    *bench.pipeline.verification.MEASURES,
    *bench.pipeline.scaling.MEASURES,
)

if __name__ == "__main__":
    main(MEASURES)
