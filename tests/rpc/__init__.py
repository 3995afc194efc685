"""Tests of the transport between processes: random messages (`messages`), processes that talk (`processes`)."""
