"""A worker of split jobs: it pulls inputs, runs something on each, and hands results in, also later.

task.py    what a worker holds and makes; the seams: what runs an input, where its bytes are
link.py    requests to the store
books.py   what waits, runs and is finished; journal.py keeps what is finished over a kill
moving.py  bytes to and from the store, beside the work
loop.py    the exchanges with the coordinator
command.py, fixed_rate.py   what runs an input

Only the standard library: it runs on small boards.
"""
