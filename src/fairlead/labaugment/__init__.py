"""The image job in pods of a lab: what a pod costs, and a pod with the store, beside the bare command.

host.py      which folders of this machine a pod needs to run this very Python
objects.py   the pods: one for the bare command, and those that an Augmentation becomes
site.py      a lab with one node, and the session of its pods
cases.py     the arrangements
"""
