"""Until when the certificate of a host is valid."""

from fairlead.authority import certificate_end
from fairlead.errors import SettingsError
from fairlead.pipeline.link.tls import HostTlsFiles, file_stamp


class CertificateClock:
    """The end of a certificate, which is read again whenever its files change."""

    def __init__(self, files: HostTlsFiles) -> None:
        self._files = files
        self._stamp: object = None
        self._ends: float | None = None

    def ends(self) -> float | None:
        """Return the end, in seconds of Unix time; None: the certificate cannot be read."""
        stamp = file_stamp(self._files)
        if stamp != self._stamp:
            self._stamp, self._ends = stamp, _read_end(self._files)
        return self._ends


def _read_end(files: HostTlsFiles) -> float | None:
    try:
        return certificate_end(files.read().cert).timestamp()
    except (SettingsError, ValueError):
        return None
