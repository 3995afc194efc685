"""Keys and bearer tokens for tests."""

import json
from functools import cached_property
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

ISSUER, AUDIENCE = "https://issuer.example", "raftlog"


class TokenIssuer:
    """Issuer with an RSA key `rsa` and an EC key `ec`, created at first use."""

    @cached_property
    def _keys(self) -> dict[str, Any]:
        return {
            "rsa": rsa.generate_private_key(public_exponent=65537, key_size=2048),
            "ec": ec.generate_private_key(ec.SECP256R1()),
        }

    def key_set(self, *ids: str) -> bytes:
        """Return the JWK set of these keys."""
        rows = []
        for name in ids or self._keys:
            public = self._keys[name].public_key()
            row = (RSAAlgorithm if name == "rsa" else ECAlgorithm).to_jwk(public, as_dict=True)
            rows.append({**row, "kid": name, "use": "sig"})
        return json.dumps({"keys": rows}).encode()

    def token(
        self,
        subject: Any = "alice",
        *,
        expires_at: float,
        key: str = "rsa",
        algorithm: str = "",
        key_id: str | None = "",
        **claims: Any,
    ) -> str:
        """Return a signed token; a claim that is None is left out."""
        content = {"sub": subject, "exp": int(expires_at), "aud": AUDIENCE, "iss": ISSUER, **claims}
        content = {name: value for name, value in content.items() if value is not None}
        algorithm = algorithm or ("RS256" if key == "rsa" else "ES256")
        headers = {} if key_id is None else {"kid": key_id or key}
        return jwt.encode(content, self._keys[key], algorithm, headers)

    def public_pem(self) -> bytes:
        """Return the public RSA key as text, which an attacker knows."""
        found: bytes = self._keys["rsa"].public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        return found
