"""What happens inside a worker.

values.py             values of stages as the parts of frames, and back; marks and ends
intake.py             one input edge: its rings, its buffer, and the order of its frames
reorder.py batch.py   the order of replicas; batches
stage_batches.py      the batches of one stage
batch_size.py         with `batch: auto`: their size and their wait
call_cost.py          how long a call takes, by the frames in its batch
join.py               frames of several inputs with the same sequence number
outlet.py             one output edge: its rings, and which of them takes a frame
emission.py           results, marks and the end, on every output edge
loop.py               the loop of a worker
opening.py            the stages of a worker, opened
reporting.py          what a worker tells its coordinator
source_reader.py      the source of a worker, at its pace
runners.py            functions, generators, classes and sinks, as a worker calls them
stateful.py           stages with state for each stream, and their checkpoints
"""
