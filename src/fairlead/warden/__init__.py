"""The agent's small part with uid 0: it relays the kubelet's PodResources API and writes checked CDI files.

The agent may be compromised, and this package must withstand that: of this project it imports only the
errors, otherwise only the standard library, and it treats every request as hostile.
"""

from typing import Final

CDI_SOCKET: Final = "cdi.sock"
"""The socket for requests to put and remove CDI files, inside the folder shared with the agent."""
POD_RESOURCES_SOCKET: Final = "pod-resources.sock"
"""The socket that relays to the kubelet's PodResources API, inside the same folder."""
