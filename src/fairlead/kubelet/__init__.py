"""The kubelet's gRPC APIs: what a node agent serves and calls on the node's unix sockets.

proto.py messages.py   protocol buffers to dataclasses and back
sockets.py             gRPC over a unix socket; the only file that uses the gRPC library
registration.py        how a kubelet discovers a plugin
plugin.py listing.py   device plugins: units of an extended resource
claims.py              the DRA plugin: claims
podresources.py        the PodResources API: which container holds which devices
"""

from importlib.util import find_spec

from fairlead.errors import MissingPartError

if find_spec("grpclib") is None:
    raise MissingPartError("the kubelet's APIs need grpclib")
