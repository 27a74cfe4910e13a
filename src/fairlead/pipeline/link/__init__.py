"""Frames between hosts: a stream of gRPC that survives a cut connection.

joins.py     how two workers are joined
wire.py      the messages of a stream
window.py    what is sent and not acknowledged; what is received and not whole yet
clock.py     the difference between the clocks of two hosts
session.py   both directions of one stream, over any number of connections
sender.py receiver.py    a session as the `Sender` and the `Receiver` of an edge
rpc.py rpc_server.py     the calls of a host, from both ends
tls.py http2/            its certificates; gRPC over HTTP/2
dial.py      connect, and connect again
pump.py      frames from a ring into a link, and back
jpeg.py      images as JPEG on their way
"""
