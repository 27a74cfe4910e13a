"""What a running pipeline shows of itself; it begins with the counters that workers report.

histogram.py   durations in fixed buckets, and quantiles of them
window.py      rates and shares of time, from the latest reports of a worker
bottleneck.py  which stage limits a pipeline
runs.py        the status of a run, on a socket of its user
spans.py       what a worker notes of every n-th frame
otlp.py        spans as OpenTelemetry's JSON, and as trace events
trace_file.py  the file that spans are written to
"""
