"""The progress of a run in a folder: it outlives the coordinator, and the next run goes on from it.

record.py       what is kept, as a value and as text
folder.py       the folder: its lock, and whether a run may begin or go on in it
snapshot.py     from a running pipeline to a record, and back to where a run goes on; pure
keeper.py       writes records beside a run, a few times a second at most
kept_run.py     the progress of one run, as its driver sees it
"""
