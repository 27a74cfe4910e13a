"""What each stage of a pipeline costs on each machine, measured with the frames that it would get.

facts.py         a profile as data; its file is versioned
problem.py       the problem of the planner from a pipeline and its profile; pure
record.py        frames in a file: what a stage gets where it is measured
process.py       measures one stage: a process of its own
machine.py       starts that process here
messages.py remote.py serve.py    the same on another host, over its `pipeline worker`
link_rate.py reach.py    the links, and the hosts that can be reached
planned_file.py  the file of a pipeline with a plan in it; pure
profiler.py      the order of it all
"""
