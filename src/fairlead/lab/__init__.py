"""A real Kubernetes for tests and demos, built from pinned Go modules.

parts.py        what there is to build: which programs, from which pins, with which flags
toolchain.py    the Go that builds them: from PATH, or from PyPI
cache.py        where built things lie, who may write there, and how much room is left
errand.py       run another program to its end, with its output in a log
build.py        `ensure`: the programs, built where they are missing
debian.py       the node's small tools, unpacked from Debian packages without installing them
compiler.py     what the one part needs that is partly written in C

up.py down.py   start a lab, end it; reap those that nobody wants
home.py state.py  where labs are and who may touch them; what is known of each, in one JSON file
process.py      processes by number and start: no other is ever signalled
running.py ready.py narrate.py  start programs, wait for them, say how long it took
kit.py          everything that a profile needs before it can start
certs.py commands.py control.py  keys, command lines and the start of a control plane
fleet.py dummy.py populate.py    a fleet file, the nodes that it means, many requests at once
spaces.py init.py relay.py cgroups.py  a node's private namespaces, the first process in them, the way in
node.py nodefiles.py images.py   real nodes, what they are told, and images from local files

inside.py load.py    in a lab that runs: work inside its nodes, bring images there
restart.py health.py probe.py    end a program and start it anew; whether it is well, and who asks
helm.py prometheus.py    Helm as the administrator, Prometheus in the first node
"""
