"""Containers are held to their share of a GPU: MPS daemons, one for each container or claim that asks for it.

The program runs as uid 0 without capabilities, in a pod of its own that has the GPUs. It starts and ends
daemons for the agent over a Unix socket, and brings back a daemon that was killed. Of this project it imports
the errors, the signals, the limiter and the warden's sockets, otherwise only the standard library.

request.py   the requests, each checked as hostile
daemons.py   the daemons: started, watched, brought back, ended
server.py    the program
client.py    the agent's side
"""

from typing import Final

LIMIT_SOCKET: Final = "limit.sock"
"""The socket, inside the folder shared with the agent."""
ANSWER_LIMIT: Final = 64 * 1024
"""Bytes of an answer."""
COUNT_LIMIT: Final = 256
"""Daemons at once: each takes 66 MiB of a GPU."""
