"""Keys and certificates of resources, made by our own authority."""

from fairlead.authority import CertificateAuthority, LeafCertificate
from fairlead.ownedobjects.certificates import AUTHORITY_LIFE, CertifiedKey, HostNames


class AuthorityIssuer:
    """An `Issuer` with real keys."""

    def authority(self, name: str) -> CertifiedKey:
        """Return a new authority."""
        made = CertificateAuthority.new(name, AUTHORITY_LIFE)
        return CertifiedKey(made.certificate_pem, made.key_pem)

    def leaf(self, authority: CertifiedKey, names: HostNames) -> CertifiedKey:
        """Return a new certificate of an authority, for a host that is a client of other hosts as well."""
        signer = CertificateAuthority.load(authority.certificate, authority.key)
        leaf = LeafCertificate(
            names.common_name, names.common_name, hosts=names.dns, is_peer=True, uris=(names.uri,)
        )
        return CertifiedKey(*signer.issue(leaf, names.life))
