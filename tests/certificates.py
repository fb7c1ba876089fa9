"""Certificates for tests: good ones, expired ones, ones for another host, ones of another authority."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

KEY_PASSWORD = "key-password"
DAY = datetime.timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Pair:
    """PEM files of a certificate and its key, and both in one file."""

    certificate: Path
    key: Path
    both: Path


@dataclass(frozen=True, slots=True)
class Certificates:
    ca: Path
    server: Pair
    renewed_server: Pair
    expired_server: Pair
    other_host_server: Pair
    encrypted_server: Pair
    key_password_file: Path
    alice: Pair
    expired_alice: Pair
    stranger: Pair  # of an authority that nobody trusts


def make_certificates(folder: Path) -> Certificates:
    ca, other_ca = _Authority("Test CA"), _Authority("Other CA")
    (folder / "ca.pem").write_bytes(ca.pem)
    (folder / "key-password").write_text(KEY_PASSWORD + "\n")
    return Certificates(
        ca=folder / "ca.pem",
        server=ca.issue(folder, "server"),
        renewed_server=ca.issue(folder, "renewed-server"),
        expired_server=ca.issue(folder, "expired-server", until=-DAY),
        other_host_server=ca.issue(folder, "other-host-server", host="broker.example.test", address=None),
        encrypted_server=ca.issue(folder, "encrypted-server", password=KEY_PASSWORD),
        key_password_file=folder / "key-password",
        alice=ca.issue(folder, "alice", organization="x"),
        expired_alice=ca.issue(folder, "expired-alice", until=-DAY),
        stranger=other_ca.issue(folder, "stranger"),
    )


class _Authority:
    def __init__(self, name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        constraints = x509.BasicConstraints(ca=True, path_length=0)
        usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        made = (
            self._builder(self._name, self._key.public_key(), DAY)
            .add_extension(constraints, critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        self.pem = made.public_bytes(serialization.Encoding.PEM)

    def issue(
        self,
        folder: Path,
        name: str,
        *,
        organization: str | None = None,
        host: str = "localhost",
        address: str | None = "127.0.0.1",
        until: datetime.timedelta = DAY,
        password: str | None = None,
    ) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        parts = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
        if organization is not None:
            parts.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
        names: list[x509.GeneralName] = [x509.DNSName(host)]
        if address is not None:
            names.append(x509.IPAddress(ipaddress.ip_address(address)))
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        made = (
            self._builder(x509.Name(parts), key.public_key(), until)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
            )
            .sign(self._key, hashes.SHA256())
        )
        encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if password is not None:
            encryption = serialization.BestAvailableEncryption(password.encode())
        pair = Pair(folder / f"{name}.pem", folder / f"{name}.key", folder / f"{name}.both.pem")
        pair.certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
        pair.key.write_bytes(
            key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
        )
        pair.both.write_bytes(pair.key.read_bytes() + pair.certificate.read_bytes())
        return pair

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, until: datetime.timedelta
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 10 * DAY)
            .not_valid_after(now + until)
        )
