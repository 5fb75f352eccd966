"""Certificates are checked against the name, though the connection goes to an address."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from inference.sources.errors import SourceUnavailable
from inference.sources.fetch import Fetcher
from inference.sources.network import Network


def fetched(network, url):
    with Fetcher(network) as fetcher:
        return fetcher.document(url, accept="*/*")


class Secure:
    """An https server on this machine, with a certificate of its own authority for `name`."""

    def __init__(self, folder, name):
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        now = datetime.datetime.now(datetime.UTC)
        names = [x509.DNSName(name), x509.IPAddress(ipaddress.ip_address("192.0.2.1"))]
        certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject)
            .public_key(key.public_key())
            .serial_number(1)
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(key, hashes.SHA256())
        )
        self.bundle = folder / "ca.pem"
        self.bundle.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        key_file = folder / "key.pem"
        key_file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"ok")

            def log_message(self, *args):
                pass

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.bundle, key_file)

        class Server(HTTPServer):
            def get_request(self):
                connection, address = super().get_request()
                return context.wrap_socket(connection, server_side=True), address

            def handle_error(self, request, client_address):
                pass

        self._server = Server(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def secure(tmp_path):
    server = Secure(tmp_path, "pip.example")
    yield server
    server.close()


def secure_network(secure, host="pip.example", **changes):
    return Network(
        index_url=f"https://{host}:{secure.port}/simple",
        resolve=lambda host, port: ["127.0.0.1"],
        **changes,
    )


def test_a_certificate_of_a_trusted_authority_is_checked_against_the_name(secure):
    network = secure_network(secure, extra_ca=secure.bundle)
    assert fetched(network, f"{network.index_url}/").body == b"ok"


def test_a_certificate_for_another_name_is_refused(secure):
    network = secure_network(secure, host="other.example", extra_ca=secure.bundle)
    with pytest.raises(SourceUnavailable, match=r"(?i)hostname mismatch"):
        fetched(network, f"{network.index_url}/")


def test_a_certificate_of_an_unknown_authority_is_refused(secure):
    network = secure_network(secure)
    with pytest.raises(SourceUnavailable, match=r"(?i)certificate verify failed"):
        fetched(network, f"{network.index_url}/")


def test_a_file_without_certificates_is_named(tmp_path):
    bundle = tmp_path / "ca.pem"
    bundle.write_text("nothing")
    with pytest.raises(SourceUnavailable, match=r"ca\.pem holds no readable certificates"):
        Fetcher(Network(extra_ca=bundle))
