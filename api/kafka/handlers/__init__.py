"""Handlers of Kafka's APIs by resource; each package has a function `apis(context)`, which `listener` calls."""
