"""What becomes of a run that goes on: stages move to new pods, and back if the run became worse. Pure.

surge.py       each host in its slot: a new pod starts beside the old one
run_file.py    the file of the run, which names the slots; record.py: how far an update has come
run_status.py  what the run's page says
live.py        all of it: pods, then the file, then the last pods
canary.py version_verdict.py   a share of the frames for new pods first; whether they are worse
observation.py verdict.py   whether the file is carried out, and whether the run became worse
reasons.py     what moves where, and why
"""
