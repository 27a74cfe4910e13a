"""A Pipeline in a cluster: what its resource says, the objects that it becomes, and its conditions.

resource.py      the resource as values, and the document that the coordinator reads
from_file.py     the file of a pipeline as a resource, and the ConfigMap with its code
problems.py      what is wrong with a resource, and what to do
names.py         names, ports and labels of the objects
pods.py          a pod for each host with stages, and one for the coordinator
wiring.py        the ConfigMap of the file, the headless Service, the NetworkPolicy
certificates.py  which certificates are issued again; issuer.py makes them
sequence.py      which pods are made, replaced or ended now: the coordinator stops before its hosts
status.py conditions.py   what is said of it
controller.py    all of it, for the operator
stored.py        what a stored resource says of itself, for its readers

Pure, except issuer.py: key generation is an argument.
"""
