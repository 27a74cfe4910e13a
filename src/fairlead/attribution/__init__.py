"""Which pod uses how much of an accelerator: the processes on it, looked up in the host's /proc.

The program runs as uid 0 in the host's pid namespace, in a pod of its own, and answers one question of the
agent over a Unix socket: the use of each device by pod uid and container id. Of this project it imports the
errors, the signals, the units, NVML and the warden's sockets, otherwise only the standard library.

cgroups.py   the pod and the container of a process, from its cgroups
procfs.py    the cgroups of a process that was there before a given time
sources.py   the processes on each device: NVML, KFD (AMD), nvmap (Jetson)
report.py    use by pod and container, as the answer
server.py    the program
client.py    the agent's side
"""

from typing import Final

USE_SOCKET: Final = "use.sock"
"""The socket, inside the folder shared with the agent."""
ANSWER_LIMIT: Final = 1024 * 1024
"""Bytes of an answer."""
NVMAP: Final = "nvmap"
"""The bus of a Jetson's GPU, which has no address."""
