"""`python -m bench`: measure everything but the pipeline, which has a bench of its own."""

from bench.catalogue import MEASURES
from bench.command import main
from bench.paired import MEASURES as PAIRED

if __name__ == "__main__":
    main(MEASURES, PAIRED)
