"""Traces of produce requests: durations of their steps on each broker, under one trace id (W3C Trace Context).

    a sampled request → Span (root) → spans of its steps → Tracer: bounded ring, and an exporter if there is one

Without a `Tracer` (`serve --trace` is not given) no code of this package runs. Nothing here needs OpenTelemetry but the
exporter (extra `trace`)."""
