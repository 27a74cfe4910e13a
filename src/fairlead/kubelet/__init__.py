"""The doors to a kubelet: what a node agent says and hears on the node's unix sockets.

proto.py messages.py   bytes to nouns and back
sockets.py             gRPC over a unix socket; the only file that knows the gRPC library
registration.py        how a kubelet finds a plugin
plugin.py listing.py   device plugins: units of an extended resource
claims.py              the DRA plugin: claims
podresources.py        the kubelet's own books of who holds what
"""

from importlib.util import find_spec

from fairlead.errors import MissingPartError

if find_spec("grpclib") is None:
    raise MissingPartError("talking to a kubelet needs grpclib")
