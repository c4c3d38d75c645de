"""Signs tokens as an authorization server does, and publishes the keys. Uses another library than the server.

    python issuer.py FOLDER < WANTED > MADE

WANTED is `{"keys": [{"kid", "alg"}], "tokens": [{"alg", "key", "header", "claims", …}]}`. MADE has the JWK set, and
the tokens in the same order. FOLDER stores the keys, so that later calls sign with the same keys.

    python issuer.py FOLDER --serve

This form serves FOLDER/jwks.json over TLS, with the self-signed certificate FOLDER/certificate.pem. The first line
of output is the port.
"""

import base64
import datetime
import hashlib
import hmac
import http.server
import json
import pathlib
import ssl
import sys

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa, utils
from cryptography.x509.oid import NameOID

PEM, PKCS8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
PLAIN = serialization.NoEncryption()
CURVES = {"ES256": (ec.SECP256R1(), 32, "P-256", hashes.SHA256()), "ES384": (ec.SECP384R1(), 48, "P-384", hashes.SHA384())}


def text(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def number(value, length=None):
    return text(value.to_bytes(length or (value.bit_length() + 7) // 8, "big"))


def key_of(folder, id, alg):
    """Returns the key with this id. Creates the key if it does not exist."""
    path = folder / f"{id}.pem"
    if not path.exists():
        if alg in CURVES:
            key = ec.generate_private_key(CURVES[alg][0])
        elif alg == "EdDSA":
            key = ed25519.Ed25519PrivateKey.generate()
        else:
            key = rsa.generate_private_key(65537, 1024 if id == "short" else 2048)
        path.write_bytes(key.private_bytes(PEM, PKCS8, PLAIN))
    return serialization.load_pem_private_key(path.read_bytes(), None)


def jwk(key, id, alg):
    public = key.public_key()
    if alg in CURVES:
        _, length, curve, _ = CURVES[alg]
        point = public.public_numbers()
        own = {"kty": "EC", "crv": curve, "x": number(point.x, length), "y": number(point.y, length)}
    elif alg == "EdDSA":
        raw = public.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
        own = {"kty": "OKP", "crv": "Ed25519", "x": text(raw)}
    else:
        own = {"kty": "RSA", "n": number(public.public_numbers().n), "e": number(public.public_numbers().e)}
    return {**own, "kid": id, "use": "sig"}


def signature(key, alg, message):
    if alg == "none":
        return b""
    if alg.startswith("HS"):
        # This attack uses the public key as the HMAC secret.
        public = key.public_key().public_bytes(PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        return hmac.new(public, message, hashlib.sha256).digest()
    if alg in CURVES:
        _, length, _, digest = CURVES[alg]
        r, s = utils.decode_dss_signature(key.sign(message, ec.ECDSA(digest)))
        return r.to_bytes(length, "big") + s.to_bytes(length, "big")
    if alg == "EdDSA":
        return key.sign(message)
    if alg == "PS256":
        return key.sign(message, padding.PSS(padding.MGF1(hashes.SHA256()), 32), hashes.SHA256())
    return key.sign(message, padding.PKCS1v15(), {"RS256": hashes.SHA256(), "RS384": hashes.SHA384()}[alg])


def token(folder, wanted):
    key = key_of(folder, wanted["key"], wanted["alg"])
    header = {"typ": "at+jwt", "alg": wanted["alg"], "kid": wanted["key"], **wanted.get("header", {})}
    header = {name: value for name, value in header.items() if value is not None}
    if wanted.get("shows_key"):
        header["jwk"] = jwk(key, wanted["key"], wanted["alg"])
    part = lambda value: text(json.dumps(value).encode())
    message = f"{part(header)}.{part(wanted['claims'])}"
    signed = signature(key, wanted["alg"], message.encode())
    if "instead" in wanted:
        message = f"{part(header)}.{part(wanted['instead'])}"
    return f"{message}.{text(signed)}"


def serve(folder):
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.timezone.utc)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    (folder / "certificate.pem").write_bytes(certificate.public_bytes(PEM))
    (folder / "server.pem").write_bytes(certificate.public_bytes(PEM) + key.private_bytes(PEM, PKCS8, PLAIN))

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            content = (folder / "jwks.json").read_bytes()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    print(server.server_port, flush=True)
    server.serve_forever()


def main():
    folder = pathlib.Path(sys.argv[1])
    if "--serve" in sys.argv:
        return serve(folder)
    wanted = json.load(sys.stdin)
    keys = [jwk(key_of(folder, row["kid"], row["alg"]), row["kid"], row["alg"]) for row in wanted["keys"]]
    tokens = [token(folder, row) for row in wanted["tokens"]]
    json.dump({"jwks": {"keys": keys}, "tokens": tokens}, sys.stdout)


main()
