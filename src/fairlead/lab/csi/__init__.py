"""The lab's CSI driver: each volume is an XFS file system in a sparse image on a loop device.

objects.py      pure: the driver's objects, and which volumes are made, enlarged and removed
controller.py   performs those steps: what provisioner and resizer do beside another driver
messages.py     the messages of the Container Storage Interface that we use
node.py         the services Identity and Node, which a kubelet calls
images.py       images and their mounts
__main__.py     the program: one on each real node; the first node's has the controller
start.py        started in a lab
"""
