"""What the objects of our resources have in common, whatever the kind of the resource.

kinds.py         kinds of Kubernetes' own, and digests of documents
conditions.py    conditions by the Kubernetes conventions; stored.py reads those of a stored resource
certificates.py  whether a certificate in a Secret is still good; issuer.py makes keys and certificates
confined.py      pods without privileges, and their shares of accelerators
pod_state.py     an observed pod beside what is wanted; pod_status.py: why it is not ready

Pure, except issuer.py.
"""
