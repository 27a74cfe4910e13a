"""The other hosts of a pipeline.

table.py placement.py    hosts in a file; which stage is on which
messages.py  what the coordinator and a host say to each other
remote.py    a host as the coordinator sees it; the hosts of a run
ask.py       which version a host has, and whether it can load its stages
run.py       one run on a host
settings.py  how a host serves
server.py    `fairlead pipeline worker`: the runs of a host
probe.py     loads stages in a process of its own
"""
