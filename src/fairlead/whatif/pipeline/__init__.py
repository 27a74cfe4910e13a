"""Explain a Pipeline of a live cluster: what is observed of it, what that means, and what would help.

observed.py      what was read: the resource, its pods, their nodes, events, the status of the run
run_page.py      reads the status of the run from the coordinator's pod
places.py        where each stage is, and why
cluster_findings.py  what is wrong with the resource, its pods and nodes
run_findings.py  what the run does: rates, ages, drops, what limits it
changes.py       the smallest changes that would help
report.py        all of it as one document

Pure, except run_page.py.
"""
