"""Where the store has the files of a job; the same paths lead to them on the volume."""


def input_path(job: str, path: str) -> str:
    """Return where the store has the bytes of an input."""
    return f"/jobs/{job}/in/{path}"


def result_path(job: str, path: str) -> str:
    """Return where the store has the result of an input."""
    return f"/jobs/{job}/out/{path}"


def taken_along_path(digest: str, name: str) -> str:
    """Return where the store has a file that workers fetch before they begin, by its content."""
    return f"/jobs/with/{digest}/{name}"


def checkpoint_path(job: str, digest: str) -> str:
    """Return where the store has what was saved of an unfinished input, by the input's content."""
    return f"{checkpoints_folder(job)}/{digest}"


def checkpoints_folder(job: str) -> str:
    """Return where the store has what was saved of unfinished inputs."""
    return f"/jobs/{job}/checkpoints"
