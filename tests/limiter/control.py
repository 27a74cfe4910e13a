"""A played nvidia-cuda-mps-control: daemon, server, sockets and commands as a real one has them.

On an H200 with driver 580 the daemon makes the sockets `control` and `control_privileged`, the fifo `log`,
`control_lock` and its pid file; it removes the pid file when it quits, and leaves the rest. It starts a
server for its first client. The server dies with it, however it ends.
"""

import os
import stat
import sys
from pathlib import Path

_SOURCE = r"""#!{python} -SE
import ctypes, json, os, signal, socket, subprocess, sys

pipe = os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps")
pid_file = os.path.join(pipe, "nvidia-cuda-mps-control.pid")


def connect():
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(os.path.join(pipe, "control"))
    return sock


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def serve():
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # a killed server leaves no zombie
    listener = socket.socket(socket.AF_UNIX)
    for name in ("control", "control_privileged"):
        path = os.path.join(pipe, name)
        if os.path.exists(path):
            os.unlink(path)
    socket.socket(socket.AF_UNIX).bind(os.path.join(pipe, "control_privileged"))
    listener.bind(os.path.join(pipe, "control"))
    listener.listen(64)
    if not os.path.exists(os.path.join(pipe, "log")):
        os.mkfifo(os.path.join(pipe, "log"))
    with open(os.path.join(pipe, "control_lock"), "w"):
        pass
    with open(pid_file + ".part", "w") as file:
        file.write(str(os.getpid()))
    os.rename(pid_file + ".part", pid_file)
    server = None
    defaults = {"devices": os.environ["CUDA_VISIBLE_DEVICES"], "arguments": " ".join(sys.argv[1:])}
    while True:
        sock, _ = listener.accept()
        with sock:
            words = sock.recv(100).decode().split()
            if server is not None and server.poll() is not None:
                server = None
            if words == ["client"]:
                if server is None:
                    server = subprocess.Popen(["/bin/sleep", "1000"], preexec_fn=die_with_parent)
                sock.sendall(b"%d\n" % server.pid)
                continue
            if words[:1] == ["get_server_list"] and server is not None:
                sock.sendall(b"%d\n" % server.pid)
            if words and words[0].startswith("set_default_"):
                defaults[" ".join(words[:-1])] = words[-1]
            if words == ["played_defaults"]:
                sock.sendall(json.dumps(defaults).encode())
            if words[:1] == ["quit"]:
                if server is not None:
                    server.kill()
                    server.wait()
                os.unlink(pid_file)
                os._exit(0)


def daemonise():
    os.stat(pipe), os.stat(os.environ["CUDA_MPS_LOG_DIRECTORY"]), os.environ["CUDA_VISIBLE_DEVICES"]
    try:
        connect().close()
    except OSError:
        pass
    else:
        sys.stdout.write("An instance of this daemon is already running\n")
        sys.exit(1)
    if os.fork():
        os._exit(0)
    os.setsid()
    if os.fork():
        os._exit(0)
    serve()


if "-d" in sys.argv:
    {refusal}
    daemonise()
else:
    for line in sys.stdin if not sys.argv[1:] else [sys.argv[1]]:
        try:
            sock = connect()
        except OSError:
            sys.stdout.write("Cannot find MPS control daemon process\n")
            sys.exit(1)
        sock.sendall(line.encode())
        sys.stdout.write(sock.recv(1000).decode())
"""


def write_control(folder: Path, refusal: str = "", python: str = sys.executable) -> str:
    """Write the program into a folder and return its path; with `refusal` its daemon does not start.

    It answers `played_defaults`, which a real one does not know, with its GPUs, options and defaults.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "nvidia-cuda-mps-control"
    refuse = f"sys.stderr.write({refusal!r}); sys.exit(1)" if refusal else "pass"
    path.write_text(_SOURCE.replace("{python}", python).replace("{refusal}", refuse))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def processes_below(folder: str) -> list[int]:
    """Return the living processes whose environment names a pipe folder that starts so."""
    mark = f"CUDA_MPS_PIPE_DIRECTORY={folder}".encode()
    found = []
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            state = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0]
            words = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if state != "Z" and any(word.startswith(mark) for word in words):
            found.append(int(pid))
    return found
