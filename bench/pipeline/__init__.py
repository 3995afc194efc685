"""Measures of the pipeline: Spark local[2] beside three brokers on one machine (`make bench-pipeline`)."""
