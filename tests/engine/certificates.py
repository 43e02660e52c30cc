"""Certificates for hosts, by authorities that are made for a test."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DAY = datetime.timedelta(days=1)


class Authority:
    """Signs certificates that are good for a day. Its files lie in ``directory``, which is made."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, directory.name)])
        itself = self._begun(self._name, self._key.public_key())
        itself = itself.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        self._write("authority.crt", itself.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))

    def environment(self, name: str, addresses: Sequence[str]) -> dict[str, str]:
        """What tells Ray to use TLS with a certificate of its own, good at these addresses and at loopback's."""
        key = ec.generate_private_key(ec.SECP256R1())
        made = self._begun(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]), key.public_key())
        at = [x509.IPAddress(ipaddress.ip_address(each)) for each in (*addresses, "127.0.0.1")]
        made = made.add_extension(x509.SubjectAlternativeName([*at, x509.DNSName("localhost")]), critical=False)
        uses = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        made = made.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        signed = made.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        plain = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        return {
            "RAY_USE_TLS": "1",
            "RAY_TLS_SERVER_CERT": self._write(f"{name}.crt", signed),
            "RAY_TLS_SERVER_KEY": self._write(f"{name}.key", key.private_bytes(serialization.Encoding.PEM, *plain)),
            "RAY_TLS_CA_CERT": str(self._directory / "authority.crt"),
        }

    def _begun(self, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return x509.CertificateBuilder(
            issuer_name=self._name,
            subject_name=subject,
            public_key=key,
            serial_number=x509.random_serial_number(),
            not_valid_before=now - DAY,
            not_valid_after=now + DAY,
        )

    def _write(self, name: str, content: bytes) -> str:
        path = self._directory / name
        path.touch(mode=0o600)
        path.write_bytes(content)
        return str(path)
