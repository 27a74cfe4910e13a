"""An Augmentation in a cluster: its resource, the objects that it becomes, and its conditions. Pure.

resource.py      the resource as values; problems.py: what is wrong with it
from_spec.py     an AugmentationSpec as a resource
names.py         names, labels and places of the objects
claims.py        its volume claims, and how large each is
sizes.py         the quota in force: how the size that is asked for becomes true
credentials.py   the Secret with token and invite key, and its rotation
certificates.py  the certificate of the store, and its fingerprint
store_pod.py     the pod that serves the data; application_pod.py: the user's
wiring.py        the settings of the store, Services, the NetworkPolicy
pods.py          which pods are made, left alone or ended
status.py        what is said of it
controller.py    all of it, for the operator

Key generation and random texts are arguments. What objects of other resources have too is in ownedobjects/.
"""
