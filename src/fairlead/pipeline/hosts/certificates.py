"""The certificates of the hosts of pipelines: one authority in a folder, and a certificate for each host."""

import os
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from fairlead.authority import CertificateAuthority, LeafCertificate, write_key_file
from fairlead.compat.times import UTC
from fairlead.errors import SettingsError

COORDINATOR: Final = LeafCertificate("coordinator", "coordinator")
_AUTHORITY_LIFE: Final = timedelta(days=3650)
_WRITE: Final = "write --host edge-1,10.0.0.5"


def write_certificates(folder: str, hosts: Sequence[str], days: int) -> list[str]:
    """Write the certificates of hosts and of the coordinator, and return the files; renew what is there.

    The authority is made once: hosts with an older certificate of it and those with a newer one still agree.
    """
    if not 1 <= days <= 3650:
        raise SettingsError(f"--days {days}: not a number of days from 1 to 3650")
    leaves = [COORDINATOR, *(_leaf(host) for host in hosts)]
    place = Path(folder)
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        authority = _authority(place)
        for leaf in leaves:
            certificate, key = authority.issue(leaf, timedelta(days=days))
            write_key_file(place / f"{leaf.name}.key", key)
            write_key_file(place / f"{leaf.name}.crt", certificate)
    except OSError as error:
        raise SettingsError(f"{folder}: {error.strerror}", "name a folder that can be written to") from None
    return [str(place / "ca.crt"), *(str(place / f"{leaf.name}.crt") for leaf in leaves)]


def _authority(place: Path) -> CertificateAuthority:
    paths = (place / "ca.crt", place / "ca.key")
    if not any(os.path.exists(path) for path in paths):
        authority = CertificateAuthority.new("fairlead-pipeline", _AUTHORITY_LIFE)
        write_key_file(paths[0], authority.certificate_pem)
        write_key_file(paths[1], authority.key_pem)
        return authority
    try:
        authority = CertificateAuthority.load(paths[0].read_bytes(), paths[1].read_bytes())
    except ValueError as error:
        raise SettingsError(
            f"{place}: its authority cannot be used: {error}", "name another folder"
        ) from None
    if authority.ends < datetime.now(UTC):
        raise SettingsError(f"{place}: its authority has expired", "name a new folder")
    return authority


def _leaf(text: str) -> LeafCertificate:
    name, *addresses = [part.strip() for part in text.split(",")]
    plain = name.replace("-", "").replace(".", "").replace("_", "")
    if not plain.isalnum() or not name.isascii() or name in ("ca", COORDINATOR.name) or not all(addresses):
        raise SettingsError(f"--host {text}: not a name with addresses", _WRITE)
    return LeafCertificate(name, name, hosts=(name, *addresses), is_peer=True)
