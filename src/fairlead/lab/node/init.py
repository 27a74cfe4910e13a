"""The init process of a node's namespaces: it mounts the node's own file systems, then reaps orphans.

Run as `python -I -S init.py FOLDER HOSTNAME ADDRESS KUBELET CONTAINERD` in fresh mount, PID, network and UTS
namespaces. It imports only the standard library, because it runs without site-packages.
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
    """Run mount; exit if it fails."""
    if os.spawnvp(os.P_WAIT, "mount", ["mount", *arguments]):  # noqa: S606  # no shell; the arguments are ours
        sys.exit(f"mount {' '.join(arguments)} failed")


def mount_filesystems(folder: str, kubelet: str, containerd: str) -> None:
    """Mount the node's own /proc, /run, /var/log and /var/lib, kept below `folder` or in memory.

    The kubelet and device plugins have fixed paths below /var/lib. An overlay shows the host's files there
    and keeps the node's writes. Its upper layer is in memory, because an overlay cannot be the upper layer of
    another, and the root file system of a container is one.
    """
    mount("--make-rslave", "/")
    mount("-t", "proc", "proc", "/proc")
    mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", f"{folder}/overlay")
    for name in ("upper", "work", "sysctls", "proc"):
        os.mkdir(f"{folder}/overlay/{name}")
    # The kernel lets a user namespace mount /proc only if a /proc without mounts over it is visible.
    mount("-t", "proc", "proc", f"{folder}/overlay/proc")
    mask_sysctls(f"{folder}/overlay/sysctls")
    layers = f"lowerdir=/var/lib,upperdir={folder}/overlay/upper,workdir={folder}/overlay/work"
    mount("-t", "overlay", "overlay", "-o", layers, "/var/lib")
    for name, place in (("kubelet", kubelet), ("containerd", containerd)):
        os.makedirs(place, exist_ok=True)
        mount("--bind", f"{folder}/{name}", place)
    mount("--bind", f"{folder}/log", "/var/log")
    mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
    mount("--make-rshared", "/")


def mask_sysctls(folder: str) -> None:
    """Bind-mount copies over the machine-wide sysctls that a kubelet sets."""
    for sysctl in SYSCTLS:
        path, copy = f"/proc/sys/{sysctl}", f"{folder}/{sysctl.replace('/', '.')}"
        if os.path.exists(path):
            with open(path, encoding="ascii") as real, open(copy, "w", encoding="ascii") as own:
                own.write(real.read())
            mount("--bind", copy, path)


def set_hostname(folder: str, hostname: str, address: str) -> None:
    """Set the hostname and /etc/hosts: a lookup of it would wait ten seconds for the host's DNS server."""
    socket.sethostname(hostname)
    if os.path.isfile("/etc/hosts"):
        with open(f"{folder}/hosts", "w", encoding="ascii") as file:
            file.write(f"127.0.0.1 localhost\n::1 localhost\n{address} {hostname}\n")
        mount("--bind", f"{folder}/hosts", "/etc/hosts")


def reap_orphans() -> None:
    """Reap orphaned processes until SIGTERM."""
    signals = {signal.SIGCHLD, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    while signal.sigwait(signals) != signal.SIGTERM:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass


def main(folder: str, hostname: str, address: str, kubelet: str, containerd: str) -> None:
    """Set up the node, write the PID that the host knows this process by, and stay."""
    # Before the node's own /proc is mounted, /proc/self is the PID in the host's namespace.
    pid = os.readlink("/proc/self")
    mount_filesystems(folder, kubelet, containerd)
    set_hostname(folder, hostname, address)
    with open("/proc/sys/net/ipv4/ip_forward", "w", encoding="ascii") as sysctl:
        sysctl.write("1")
    with open(f"{folder}/init.new", "w", encoding="ascii") as file:
        file.write(pid)
    os.rename(f"{folder}/init.new", f"{folder}/init.pid")
    reap_orphans()


if __name__ == "__main__":
    main(*sys.argv[1:])
