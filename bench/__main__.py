"""Entry point `python -m bench`: all measures except those of the pipeline, which `bench.pipeline` has."""

from bench.catalogue import MEASURES
from bench.command import main
from bench.paired import MEASURES as PAIRED

if __name__ == "__main__":
    main(MEASURES, PAIRED)
