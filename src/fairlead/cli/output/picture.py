"""Pictures that `--plot` writes: checked before the work begins, and written whole or not at all."""

from fairlead.errors import SettingsError


def check_writable(path: str, option: str = "--plot") -> None:
    """Raise before the work begins if the file cannot be written; leave it as it is."""
    from fairlead import outfile

    try:
        outfile.check_writable(path)
    except OSError as error:
        raise _unwritable(path, error, option) from None


def draw(path: str, picture: str, option: str = "--plot") -> None:
    """Write a picture, or another text that an option names a file for."""
    from fairlead.outfile import atomic_write

    try:
        with atomic_write(path, text=True) as stream:
            stream.write(picture)
    except OSError as error:
        raise _unwritable(path, error, option) from None


def _unwritable(path: str, error: OSError, option: str) -> SettingsError:
    return SettingsError(
        f"{option} {path}: cannot be written: {error.strerror}",
        "name a file in a folder that you may write to",
    )
