"""Frames between hosts: a stream of gRPC that survives a cut connection.

joins.py     how two workers are joined
wire.py      the messages of a stream
window.py    what is sent and not acknowledged; what is received and not whole yet
clock.py     the difference between the clocks of two hosts
session.py   both directions of one stream, over any number of connections
sender.py receiver.py    a session as the `Sender` and the `Receiver` of an edge
rpc.py tls.py            the door to grpcio, and its certificates
dial.py      connect, and connect again
pump.py      frames from a ring into a link, and back
jpeg.py      images as JPEG on their way
"""

import os

# The C core of grpcio would write each refused handshake to the standard error; it reads this at its import.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
