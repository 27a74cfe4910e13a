"""The accelerators, cores and memory of one machine as they are now, and what a command receives of them.

machine.py           LocalMachine: the view of the machine, and its inventory
inventory_cache.py   the inventory of the last scan, in a file of the user
scan.py devices.py   a scan; live values and faults of accelerators: imported when they are needed
nvml_process.py      NVML in a process of its own; nvml_child.py: what runs there
drm.py               clients of the graphics drivers of Intel and AMD
limits.py            RAM and cores, within the limits of cgroups
environment.py       the environment of a command; device_variables.py: what each vendor's runtime reads
"""

from fairlead.local.machine.environment import command_environment as command_environment
from fairlead.local.machine.environment import environment_notes as environment_notes
from fairlead.local.machine.machine import LocalMachine as LocalMachine
