"""Virtual time: an event loop, its tasks and timers, clocks of nodes, and calls that a simulation forbids."""
