-- Report of every script at its end: one line of JSON with wrk's own counts.
-- `bytes` and `requests` cover whole answers; errors.status counts answers above 399.
function done(summary, latency, requests)
  local e = summary.errors
  io.write(string.format(
    'RESULT {"requests":%d,"duration_us":%d,"bytes":%d,"p50_us":%.0f,"p99_us":%.0f,"max_us":%.0f,' ..
    '"errors":{"connect":%d,"read":%d,"write":%d,"timeout":%d,"answers of status 400 and above":%d}}\n',
    summary.requests, summary.duration, summary.bytes,
    latency:percentile(50), latency:percentile(99), latency.max,
    e.connect, e.read, e.write, e.timeout, e.status))
end
