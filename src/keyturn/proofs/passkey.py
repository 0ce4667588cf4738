"""Verify passkeys: WebAuthn assertions whose challenge is what the person said, by the `webauthn` package.

A key's text holds the site it belongs to, so that the verifier needs no setting of the web server. A proof has one
form, and is read strictly before the package reads it: that does not look at `crossOrigin`, and takes loose base64.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

import msgspec

from ..core.digest import canonical
from ..core.errors import BadJson, UserError
from ..core.people import Proof, ProofRefused, plain_text
from ..core.strict import TextLimits, parse
from .base import MOST_PROOF, Asked, Checked, PublicKey, Scheme, Site, base64url, checked_label, strict_base64
from .curves import check_ed25519, check_rsa

# ES256, EdDSA (Ed25519) and RS256: what authenticators have. In the order in which a browser is to prefer them.
ALGORITHMS = (-8, -7, -257)
_MOST_REGISTRATION = 65_536
_CREATE = "webauthn.create"
_GET = "webauthn.get"
_FLAGS = 32  # where the flags stand in the authenticator's data, and the bit that says that a new key is in it
_NEW_KEY = 0x40
_PROOF = ("authenticatorData", "clientDataJSON", "id", "signature")
_FORMATS = ("none", "packed")  # nothing, or a signature of the new key itself: who made the device is not asked


class _Text(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Holds a passkey as the directory keeps it: credential id, COSE key (both base64url), and its site."""

    credential: str
    key: str
    rp: str
    origins: tuple[str, ...]


class PasskeyScheme(Scheme):
    """Enrols passkeys of a browser and verifies what they sign.

    >>> PasskeyScheme.name
    'passkey'
    """

    name = "passkey"

    def enrol(self, given: str, *, label: str = "", asked: Asked | None = None) -> PublicKey:
        """Read what `navigator.credentials.create()` gave, as JSON, or raise `ProofRefused`."""
        self.require()
        if asked is None:
            raise UserError("a passkey answers a challenge when it is enrolled: pass asked=Asked(challenge, site)")
        named = checked_label(label)
        try:
            credential, cose = _registered(given, asked)
            _check_cose(cose)
            text = _Text(base64url(credential), base64url(cose), asked.site.rp, asked.site.origins)
            data = _written(text)
        except ProofRefused:
            raise
        except Exception as error:  # what a parser makes of a stranger's bytes
            raise ProofRefused(f"the passkey cannot be read ({type(error).__name__})") from None
        return PublicKey(self.name, self.fingerprint(data), data, named)

    def fingerprint(self, data: str) -> str:
        """Return the SHA-256 of the key's whole text: of the credential's id, its key, and the site."""
        _text_of(data)
        return "SHA256:" + base64.b64encode(hashlib.sha256(data.encode()).digest()).rstrip(b"=").decode()

    def require(self) -> None:
        """Raise `UserError` where webauthn is missing."""
        try:
            import webauthn  # noqa: F401  # pyright: ignore[reportUnusedImport]
        except ImportError:
            raise UserError("passkeys need a package: pip install 'keyturn[passkeys]'") from None

    def _check(self, public: PublicKey, challenge: bytes, data: bytes, last_count: int | None) -> Checked:
        from webauthn import verify_authentication_response
        from webauthn.helpers import structs

        text = _text_of(public.data)
        cose = strict_base64(text.key, "the key", url=True)
        _check_cose(cose)
        said = _fields(_object(data, MOST_PROOF), _PROOF)
        if canonical(said).encode() != data:
            raise ProofRefused("a proof of a passkey is the canonical JSON of its four fields")
        raw = {name: strict_base64(said[name], name, url=True) for name in _PROOF}
        if said["id"] != text.credential:
            raise ProofRefused("another passkey made it")
        site = Site(text.rp, text.origins)
        _check_client(raw["clientDataJSON"], _GET, challenge, site)
        if len(raw["authenticatorData"]) > _FLAGS and raw["authenticatorData"][_FLAGS] & _NEW_KEY:
            raise ProofRefused("it brings a new key, as only an enrolment does")
        response = structs.AuthenticatorAssertionResponse(
            client_data_json=raw["clientDataJSON"],
            authenticator_data=raw["authenticatorData"],
            signature=raw["signature"],
        )
        try:
            verified = verify_authentication_response(
                credential=structs.AuthenticationCredential(id=said["id"], raw_id=raw["id"], response=response),
                expected_challenge=challenge,
                expected_rp_id=site.rp,
                expected_origin=list(site.origins),
                credential_public_key=cose,
                credential_current_sign_count=last_count or 0,
                require_user_verification=True,
            )
        except Exception as error:
            raise ProofRefused(_plain(error)) from None
        return Checked(verified.new_sign_count, present=True, verified=True)


def registration_options(
    site: Site, challenge: bytes, user: str, user_id: bytes, *, known: Sequence[PublicKey] = ()
) -> str:
    """Return the JSON that a page gives to `parseCreationOptionsFromJSON`, to enrol a new passkey.

    `known` are the person's passkeys so far, so that one authenticator is not enrolled twice. `user_id` says nothing
    of the person: 1 to 64 random bytes.
    """
    PasskeyScheme().require()
    from webauthn import generate_registration_options, options_to_json
    from webauthn.helpers import structs
    from webauthn.helpers.cose import COSEAlgorithmIdentifier

    plain_text(user, "user")
    options = generate_registration_options(
        rp_id=site.rp,
        rp_name="Keyturn",
        user_id=user_id,
        user_name=user,
        challenge=challenge,
        attestation=structs.AttestationConveyancePreference.NONE,
        authenticator_selection=structs.AuthenticatorSelectionCriteria(
            resident_key=structs.ResidentKeyRequirement.PREFERRED,
            user_verification=structs.UserVerificationRequirement.REQUIRED,
        ),
        exclude_credentials=_descriptors(known),
        supported_pub_key_algs=[COSEAlgorithmIdentifier(number) for number in ALGORITHMS],
    )
    return options_to_json(options)


def assertion_options(challenge: bytes, keys: Sequence[PublicKey], *, rp: str = "") -> str:
    """Return the JSON that a page gives to `parseRequestOptionsFromJSON`: sign this challenge with one of these keys.

    The keys are one person's, and of one site. With the `rp` of a site and no keys, any passkey of that site will do
    that says by itself whose it is.
    """
    PasskeyScheme().require()
    from webauthn import generate_authentication_options, options_to_json
    from webauthn.helpers import structs

    sites = {_text_of(key.data).rp for key in keys}
    if rp:
        sites.add(rp)
    if len(sites) != 1:
        raise UserError("keys are passkeys of one site, at least one")
    options = generate_authentication_options(
        rp_id=sites.pop(),
        challenge=challenge,
        allow_credentials=_descriptors(keys),
        user_verification=structs.UserVerificationRequirement.REQUIRED,
    )
    return options_to_json(options)


def site_of(key: PublicKey) -> Site:
    """Return the site that a passkey belongs to."""
    text = _text_of(key.data)
    return Site(text.rp, text.origins)


def proof_of(given: str, keys: Sequence[PublicKey]) -> Proof:
    """Make the proof of what `navigator.credentials.get()` gave, as JSON: find the key, verify nothing.

    Raises `ProofRefused` where it is none, or of a passkey that is not among the keys.
    """
    whole = _object(given, MOST_PROOF)
    answer = whole.get("response")
    if not isinstance(answer, dict):
        raise ProofRefused("it has no response of an authenticator")
    said = _fields({**cast("dict[str, Any]", answer), "id": whole.get("id")}, _PROOF, exactly=False)
    for key in keys:
        if key.scheme == PasskeyScheme.name and credential_of(key) == said["id"]:
            return Proof(PasskeyScheme.name, key.id, canonical(said).encode())
    raise ProofRefused("it is of a passkey that is not enrolled")


def credential_of(key: PublicKey) -> str:
    """Return the id by which a browser names a passkey."""
    return _text_of(key.data).credential


def _descriptors(keys: Sequence[PublicKey]) -> list[Any]:
    from webauthn.helpers.structs import PublicKeyCredentialDescriptor

    ids = [strict_base64(credential_of(key), "the id", url=True) for key in keys]
    return [PublicKeyCredentialDescriptor(id=one) for one in ids]


def _registered(given: str, asked: Asked) -> tuple[bytes, bytes]:
    """Return credential id and COSE key of a registration that answers what was asked."""
    from webauthn import verify_registration_response
    from webauthn.helpers import structs
    from webauthn.helpers.cose import COSEAlgorithmIdentifier
    from webauthn.helpers.parse_attestation_object import parse_attestation_object

    whole = _object(given, _MOST_REGISTRATION)
    answer: Any = whole.get("response")
    if not isinstance(answer, dict):
        raise ProofRefused("it has no response of an authenticator")
    said = _fields(cast("dict[str, Any]", answer), ("attestationObject", "clientDataJSON"), exactly=False)
    [named] = _fields(whole, ("id",), exactly=False).values()
    raw = {name: strict_base64(value, name, url=True) for name, value in said.items()}
    _check_client(raw["clientDataJSON"], _CREATE, asked.challenge, asked.site)
    if parse_attestation_object(raw["attestationObject"]).fmt not in _FORMATS:
        raise ProofRefused("it comes with an attestation of its maker, which was not requested")
    response = structs.AuthenticatorAttestationResponse(
        client_data_json=raw["clientDataJSON"], attestation_object=raw["attestationObject"]
    )
    raw_id = strict_base64(named, "id", url=True)
    try:
        verified = verify_registration_response(
            credential=structs.RegistrationCredential(id=named, raw_id=raw_id, response=response),
            expected_challenge=asked.challenge,
            expected_rp_id=asked.site.rp,
            expected_origin=list(asked.site.origins),
            require_user_verification=True,
            supported_pub_key_algs=[COSEAlgorithmIdentifier(number) for number in ALGORITHMS],
        )
    except Exception as error:
        raise ProofRefused(_plain(error)) from None
    if verified.credential_id != raw_id:
        raise ProofRefused("the authenticator says another id than the browser")
    return verified.credential_id, verified.credential_public_key


def _check_client(data: bytes, kind: str, challenge: bytes, site: Site) -> None:
    """Read what the browser says that it signed, strictly: a name twice, or a frame of another site, is refused."""
    client = _object(data, MOST_PROOF)
    if client.get("type") != kind:
        raise ProofRefused(f"the browser made it for something else than {kind}")
    if client.get("challenge") != base64url(challenge):
        raise ProofRefused("it is a signature on something else")
    if client.get("origin") not in site.origins:
        raise ProofRefused("it was made on a page of another origin")
    if client.get("crossOrigin", False) is not False or "topOrigin" in client:
        raise ProofRefused("it was made in a frame of another site")


def _check_cose(cose: bytes) -> None:
    """Refuse a key of another algorithm, of another curve, or one for which anybody could sign."""
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
    from webauthn.helpers import decode_credential_public_key, decoded_public_key_to_cryptography

    decoded = decode_credential_public_key(cose)
    key: Any = decoded_public_key_to_cryptography(decoded)
    match int(decoded.alg), key:
        case -8, ed25519.Ed25519PublicKey():
            check_ed25519(key.public_bytes_raw())
        case -7, ec.EllipticCurvePublicKey(curve=ec.SECP256R1()):
            pass
        case -257, rsa.RSAPublicKey():
            check_rsa(key)
        case _:
            raise ProofRefused("a passkey signs by ES256, EdDSA or RS256, on the curve of that name")


def _written(text: _Text) -> str:
    return canonical({**msgspec.structs.asdict(text), "origins": list(text.origins)})


@lru_cache(maxsize=20_000)  # whoever signs in, and any stranger who tries, is looked for among all keys
def _text_of(data: str) -> _Text:
    text = msgspec.json.decode(data, type=_Text)
    if _written(text) != data:
        raise ProofRefused("the key's text is not the one that was enrolled")
    return text


def _object(given: str | bytes, most: int) -> dict[str, Any]:
    try:
        value = parse(given, TextLimits(bytes=most, depth=8))
    except BadJson as error:
        raise ProofRefused(f"it is {error}") from None
    if not isinstance(value, dict):
        raise ProofRefused("it is not an object of JSON")
    return value


def _fields(whole: Mapping[str, Any], names: Sequence[str], *, exactly: bool = True) -> dict[str, str]:
    if exactly and sorted(whole) != sorted(names):
        raise ProofRefused(f"it has the fields {', '.join(names)}, and no other")
    said = {name: whole.get(name) for name in names}
    if not all(isinstance(value, str) for value in said.values()):
        raise ProofRefused(f"{', '.join(names)} are texts")
    return cast("dict[str, str]", said)


# What the package says, by a word in it, as a person can read it.
_PLAIN = {
    "signature": "it is not this key's signature on the decision",
    "RP ID": "it was made for another site",
    "not present": "the authenticator was not touched",
    "not verified": "the authenticator did not verify the person (PIN, finger or face)",
    "sign count": "the counter of the key did not increase: the key was copied, or the proof is an old one",
}


def _plain(error: Exception) -> str:
    said = str(error)
    return next(
        (plain for word, plain in _PLAIN.items() if word in said), f"it cannot be read ({type(error).__name__})"
    )
