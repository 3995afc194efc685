"""`python -m bench.pipeline`: measure what runs on Spark."""

import bench.pipeline.archiving
import bench.pipeline.growth
import bench.pipeline.reading
import bench.pipeline.verifying
import bench.pipeline.writing
from bench.command import main

MEASURES = (
    *bench.pipeline.reading.MEASURES,
    *bench.pipeline.archiving.MEASURES,
    *bench.pipeline.writing.MEASURES,
    *bench.pipeline.verifying.MEASURES,
    *bench.pipeline.growth.MEASURES,
)

if __name__ == "__main__":
    main(MEASURES)
