"""`python -m bench.pipeline`: measure what runs on Spark."""

from bench.command import main
from bench.pipeline import archiving, growth, reading, verifying, writing

MEASURES = (
    *reading.MEASURES,
    *archiving.MEASURES,
    *writing.MEASURES,
    *verifying.MEASURES,
    *growth.MEASURES,
)

if __name__ == "__main__":
    main(MEASURES)
