"""`python -m bench`: measure everything but the pipeline, which has a bench of its own."""

from bench.catalogue import MEASURES
from bench.command import main

if __name__ == "__main__":
    main(MEASURES)
