"""The first process of a node's namespaces: it makes the node's own file tree, then buries the dead.

Run as `python -I -S init.py FOLDER HOSTNAME ADDRESS KUBELET CONTAINERD` in fresh mount, PID, network and UTS
namespaces. It imports nothing but the standard library, since it runs before anything else could be found.
When it is killed, the kernel ends every process, mount and network device of the node with it.
"""

import os
import signal
import socket
import sys

SYSCTLS = (
    "kernel/keys/root_maxbytes",
    "kernel/keys/root_maxkeys",
    "kernel/panic",
    "kernel/panic_on_oops",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
)


def mount(*arguments: str) -> None:
    """Mount something, or end."""
    if os.spawnvp(os.P_WAIT, "mount", ["mount", *arguments]):  # noqa: S606  # no shell; the arguments are ours
        sys.exit(f"mount {' '.join(arguments)} failed")


def mount_filesystems(folder: str, kubelet: str, containerd: str) -> None:
    """Give the node its own /proc, /run, /var/log and /var/lib, kept below `folder` or in memory.

    The kubelet and device plugins have fixed paths below /var/lib. An overlay shows what the host has
    there and takes what the node writes; the overlay's own files are in memory, because one overlay cannot
    stand on another, which is what a container's own file system is.
    """
    mount("--make-rslave", "/")
    mount("-t", "proc", "proc", "/proc")
    mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", f"{folder}/overlay")
    for name in ("upper", "work", "knobs", "proc"):
        os.mkdir(f"{folder}/overlay/{name}")
    # The kernel lets a user namespace mount /proc only where one is to be seen without anything over it.
    mount("-t", "proc", "proc", f"{folder}/overlay/proc")
    mask_sysctls(f"{folder}/overlay/knobs")
    layers = f"lowerdir=/var/lib,upperdir={folder}/overlay/upper,workdir={folder}/overlay/work"
    mount("-t", "overlay", "overlay", "-o", layers, "/var/lib")
    for name, place in (("kubelet", kubelet), ("containerd", containerd)):
        os.makedirs(place, exist_ok=True)
        mount("--bind", f"{folder}/{name}", place)
    mount("--bind", f"{folder}/log", "/var/log")
    mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
    mount("--make-rshared", "/")


def mask_sysctls(folder: str) -> None:
    """Lay copies over the settings of the whole machine that a kubelet insists on changing."""
    for knob in SYSCTLS:
        place, copy = f"/proc/sys/{knob}", f"{folder}/{knob.replace('/', '.')}"
        if os.path.exists(place):
            with open(place, encoding="ascii") as real, open(copy, "w", encoding="ascii") as own:
                own.write(real.read())
            mount("--bind", copy, place)


def set_hostname(folder: str, hostname: str, address: str) -> None:
    """Let the node know its own name: who asks for it would wait ten seconds for the host's name server."""
    socket.sethostname(hostname)
    if os.path.isfile("/etc/hosts"):
        with open(f"{folder}/hosts", "w", encoding="ascii") as file:
            file.write(f"127.0.0.1 localhost\n::1 localhost\n{address} {hostname}\n")
        mount("--bind", f"{folder}/hosts", "/etc/hosts")


def reap_orphans() -> None:
    """Wait for orphans to end, until asked to end."""
    signals = {signal.SIGCHLD, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    while signal.sigwait(signals) != signal.SIGTERM:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass


def main(folder: str, hostname: str, address: str, kubelet: str, containerd: str) -> None:
    """Make the node's world, say under which number the host knows us, and stay."""
    # Before our own /proc is mounted, this one still counts as the host does.
    number = os.readlink("/proc/self")
    mount_filesystems(folder, kubelet, containerd)
    set_hostname(folder, hostname, address)
    with open("/proc/sys/net/ipv4/ip_forward", "w", encoding="ascii") as knob:
        knob.write("1")
    with open(f"{folder}/init.new", "w", encoding="ascii") as file:
        file.write(number)
    os.rename(f"{folder}/init.new", f"{folder}/init.pid")
    reap_orphans()


if __name__ == "__main__":
    main(*sys.argv[1:])
