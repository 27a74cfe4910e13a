"""What holds a program to its share of an accelerator and of the RAM, on one machine and on a node.

It stands on the standard library, the errors, the signals and the units alone: a part of it runs as uid 0.

mps.py          CUDA's Multi-Process Service: folders, and the variables of daemons and clients; pure
mps_daemon.py   its daemon: start, look, end
process.py      one process, never confused with a later one of the same pid
overuse.py   when a job holds more than its limit: the watchdog's rule; pure
cgroup.py    a cgroup for a job: its RAM, and the memory of GPUs on kernels that limit it
hook/        what Python programs import at their start: the limits of frameworks that no variable sets
"""
