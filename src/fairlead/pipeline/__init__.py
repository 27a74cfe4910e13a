"""Applications as streams of frames through stages, in processes of their own or fused with neighbours.

ports.py spec.py            types of values; a pipeline as data
yaml_file.py sdk.py         pipelines from files and from Python
load.py check.py            functions by name; what must be changed before a run
endpoints/                  tables of sources and sinks
programs/ models/           stages that are programs in any language, or ONNX models
fuse.py plan/               which processes there are; which node runs which stages
coordinator.py driver.py    the decisions of a run, and what performs them
place.py worker.py work/    the processes of a machine; one process
link/ hosts/                frames between hosts; other hosts
control.py progress.py checkpoints.py status.py    messages, shared progress, states, counters
state/                      the progress of a run in a folder, from which another run goes on
frame.py transport.py ring*.py segment.py    frames, and shared memory between processes
edge.py                     what an edge drops
"""

from fairlead.pipeline.ports import Image, Record, tensor
from fairlead.pipeline.sdk import Chain, Pipeline, call, model, program, sink, source, stage

__all__ = [
    "Chain",
    "Image",
    "Pipeline",
    "Record",
    "call",
    "model",
    "program",
    "sink",
    "source",
    "stage",
    "tensor",
]
