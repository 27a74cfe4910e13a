"""A real Kubernetes for tests and demos, built from pinned Go modules.

build/      what a lab runs, in a cache per user
  modules.py toolchain.py compiler.py  the pinned Go modules, the Go that builds them, the one C library
  programs.py cache.py    `ensure` builds the missing programs; their folders, locks and disk space
  debian.py images.py     tools unpacked from Debian packages, container images made from local files
  prerequisites.py        everything that a profile needs before it can start

node/       real nodes
  namespaces.py init.py cgroups.py  a node's namespaces, the first process in them, its control groups
  layout.py files.py start.py       where a node keeps its files, their contents, the start of its programs
  relay.py inside.py load.py        a TCP relay into a node, commands inside it, images imported into it

control/    the control plane, the nodes that kwok simulates, and the add-ons
  certs.py commands.py tuning.py    keys, command lines, feature gates and the scheduler's configuration
  plane.py populate.py              start the control plane; create its nodes and wait for them
  fleet.py kwok_nodes.py            a fleet file, and its Node manifests
  helm.py prometheus.py             Helm as the administrator, Prometheus in the first node

run/        the life of a lab
  up.py down.py restart.py          start a lab, end it or the unused ones, restart one of its programs
  home.py state.py                  the folders and locks of labs; the state of each, in one JSON file
  process.py subprocess.py          processes by PID and start time; a program run to its end
  starting.py steps.py              start programs and record them; print each step and its duration
  ready.py health.py probe.py       wait for programs, and check their health
"""
