"""gRPC over HTTP/2 without a library: streams of raw bytes, which are not copied once they are received.

frames.py      frames of HTTP/2 as bytes, and back; pure
windows.py     how much may be sent, and when the other side may send more; pure
channel.py     a connected socket, plain or with TLS, for one reader and many writers
contexts.py    TLS contexts from the certificates of a host
grpc.py        messages and statuses of gRPC in frames of HTTP/2; pure
stream.py      one stream: what has arrived, what may leave, how it ended
connection.py  one connection: a thread that reads frames, and the writes of every stream
"""
