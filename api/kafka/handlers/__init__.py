"""Handlers of Kafka's APIs by resource; each package has `apis(context)`, which `listener` calls."""
