"""A Pipeline in a cluster: what its resource says, the objects that it becomes, and its conditions.

resource.py      the resource as values, and the document that the coordinator reads
from_file.py     the file of a pipeline as a resource, and the ConfigMap with its code
plan_spec.py     what it says of its plan: a profile, an objective, a limit
eligible.py      which of its hosts have a node
placing.py       the exact plan of its stages on hosts, with hysteresis
placed.py        the resource with a host for each stage, and what is said of the plan
problems.py      what is wrong with a resource, and what to do
names.py         names, ports and labels of the objects
pods.py          a pod for each host with stages, and one for the coordinator
wiring.py        the ConfigMap of the file, the headless Service, the NetworkPolicy
certificates.py  which certificates are issued again
decision.py      what becomes of the run: it stands still, stops, goes on, or is done
sequence.py      which pods are made or ended while it stands still; the coordinator stops before its hosts
update/          what becomes of it while it goes on
status.py conditions.py   what is said of it
controller.py    all of it, for the operator

Pure: key generation is an argument. What the objects of other resources have too is in ownedobjects/.
"""
