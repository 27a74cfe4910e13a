"""The agent's small part that runs as uid 0: it relays the kubelet's books and writes checked CDI files.

The agent may be taken over, and this package must stand then: it imports nothing of the house but its errors,
nothing from outside the standard library, and takes every request for hostile.
"""

from typing import Final

CDI_SOCKET: Final = "cdi.sock"
"""Where the warden is asked to put and remove CDI files, inside the folder that it shares with the agent."""
POD_RESOURCES_SOCKET: Final = "pod-resources.sock"
"""Where the warden relays to the kubelet's pod-resources API, inside the same folder."""
