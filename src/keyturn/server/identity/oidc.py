"""Ask a provider of OpenID Connect who somebody is: code flow with PKCE, and a token that is verified here.

Which algorithms sign tokens is said here and not by the provider. Whatever does not fit, or cannot be reached, lets
nobody in.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import ssl
import time
from typing import Any, cast
from urllib.parse import urlencode, urlsplit

from ...core.errors import BadJson, KeyturnError, UserError
from ...core.strict import parse
from ...directory.provisioning import Claims
from ...directory.state import Subject
from ..settings import OidcSettings, check_provider_url

ALGORITHMS = ["RS256", "PS256", "ES256", "Ed25519"]
_LEEWAY = 60
_OLDEST = 600  # seconds since a token was issued
_KNOWN = 3_600.0  # how long what a provider says of itself is believed
_AGAIN = 10.0  # how long to wait before keys are looked up once more
_MOST_BYTES = 1 << 20
_SECONDS = 10.0  # a whole answer of a provider
_PAUSE = 3.0
_LONGEST_SUBJECT = 255  # characters, as OpenID Connect has it
_FAR = 1e12  # seconds since 1970, of no time that a token has
_PLAIN = {"accept": "application/json", "accept-encoding": "identity"}
_AWAY = "the identity provider is unreachable: try again later, or sign in with a passkey or a password"


class OidcRefused(KeyturnError):
    """Raised where a provider's word is not taken; `away` says that it could not be had.

    >>> OidcRefused("the token is another's").away
    False
    """

    def __init__(self, message: str, *, away: bool = False) -> None:
        super().__init__(message)
        self.away = away


class Provider:
    """Reads what a provider says of itself, sends people there, and verifies what it says of them."""

    def __init__(self, settings: OidcSettings, transport: Any = None) -> None:
        self.settings = settings
        self._transport = transport
        self._about: tuple[float, dict[str, Any]] = (0.0, {})
        self._keys: tuple[float, Any] = (0.0, None)
        self._trusted: Any = None
        self._away_until = 0.0
        self._looking = asyncio.Lock()  # strangers begin logins: one look-up serves all that wait for it

    async def address(self, back: str, state: str, nonce: str, verifier: str, *, silent: bool = False) -> str:
        """Return where somebody signs in at the provider, who is sent back with this state; `silent` asks nothing."""
        about = await self._discovered()
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        asked = {
            "response_type": "code",
            "client_id": self.settings.client,
            "redirect_uri": back,
            "scope": " ".join(self.settings.scopes),
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
            **({"prompt": "none"} if silent else {}),
        }
        where = str(about["authorization_endpoint"])
        return f"{where}{'&' if urlsplit(where).query else '?'}{urlencode(asked)}"

    async def claims(self, code: str, iss: str, back: str, nonce: str, verifier: str) -> dict[str, Any]:
        """Return the claims of whoever logged in, in exchange for the code, or raise `OidcRefused`."""
        about = await self._discovered()
        if iss != self.settings.issuer and (iss or about.get("authorization_response_iss_parameter_supported") is True):
            raise OidcRefused("the answer is from another identity provider than the one that was asked")
        body = {"grant_type": "authorization_code", "code": code, "redirect_uri": back, "code_verifier": verifier}
        auth = None
        if self.settings.secret:
            auth = (self.settings.client, self.settings.secret)
        else:
            body["client_id"] = self.settings.client
        answer = await self._fetch("POST", about["token_endpoint"], data=body, auth=auth)
        token = answer.get("id_token")
        if not isinstance(token, str) or len(token) > 65_536:
            raise OidcRefused("the identity provider sent no ID token")
        return await self._verified(token, nonce)

    def person(self, claims: dict[str, Any]) -> str:
        """Return the id of the person that claims name, or raise `OidcRefused`."""
        name = self.settings.claim
        found = claims.get(name)
        if not isinstance(found, str) or not found:
            raise OidcRefused(f"the ID token has no claim {name!r}, which is the user id here")
        if name == "email" and claims.get("email_verified") is not True:
            raise OidcRefused("the identity provider has not verified your e-mail address")
        return found

    def given(self, claims: dict[str, Any]) -> Claims | None:
        """Return the groups and roles that claims give by the rules of the settings; None without rules.

        A provider that leaves the groups of a user out, since they are too many, is refused: it would take them away.
        """
        rules = self.settings.rules
        if not rules:
            return None
        left_out = claims.get("_claim_names")
        missing = [rule.claim for rule in rules if isinstance(left_out, dict) and rule.claim in left_out]
        if missing:
            raise OidcRefused(
                f"the provider left out the claim {missing[0]!r}, which is too long: have it send only the groups that "
                "are assigned to this application"
            )
        values = {claim: _values_of(claims, claim) for claim in {rule.claim for rule in rules}}
        fit = [rule for rule in rules if rule.value in values[rule.claim]]
        return Claims(tuple(rule.group for rule in fit if rule.group), tuple(rule.role for rule in fit if rule.role))

    def subject(self, claims: dict[str, Any]) -> Subject | None:
        """Return the account that was signed in, to be bound to its person; None where the id is that account."""
        return None if self.settings.claim == "sub" else Subject(self.settings.issuer, claims["sub"])

    async def _verified(self, token: str, nonce: str) -> dict[str, Any]:
        from joserfc import jws
        from joserfc.errors import JoseError

        for again in (False, True):  # keys are changed: look once more, and no more than that
            keys = await self._key_set(again=again)
            try:
                opened = jws.deserialize_compact(token, keys, algorithms=ALGORITHMS)
            except (JoseError, ValueError, TypeError, LookupError, RecursionError):
                continue
            return self._checked(opened.payload, nonce)
        raise OidcRefused("the ID token is not signed by the identity provider")

    def _checked(self, payload: bytes | None, nonce: str) -> dict[str, Any]:
        try:
            said: Any = parse(payload or b"")  # strictly: no time is Infinity, and no claim is there twice
        except BadJson:
            said = None
        if not isinstance(said, dict):
            raise OidcRefused("the ID token cannot be read")
        claims = cast("dict[str, Any]", said)
        now = time.time()
        audience: Any = claims.get("aud")
        audiences = [audience] if isinstance(audience, str) else audience
        if claims.get("iss") != self.settings.issuer:
            raise OidcRefused("the ID token is from another issuer")
        if not isinstance(audiences, list) or self.settings.client not in cast("list[Any]", audiences):
            raise OidcRefused("the ID token is for another application")
        if len(cast("list[Any]", audiences)) > 1 and claims.get("azp") != self.settings.client:
            raise OidcRefused("the ID token is for several applications")
        if claims.get("azp", self.settings.client) != self.settings.client:
            raise OidcRefused("the ID token is for another application")
        if claims.get("nonce") != nonce:
            raise OidcRefused("the ID token is for another sign-in")
        ends, made = _number(claims, "exp"), _number(claims, "iat")
        if now >= ends + _LEEWAY or made > now + _LEEWAY or made < now - _OLDEST:
            raise OidcRefused("the ID token has expired, or is not from now")
        if "nbf" in claims and _number(claims, "nbf") > now + _LEEWAY:
            raise OidcRefused("the ID token is not valid yet")
        subject: Any = claims.get("sub")
        if not isinstance(subject, str) or not 0 < len(subject) <= _LONGEST_SUBJECT:
            raise OidcRefused("the ID token has no subject")
        return claims

    async def _discovered(self) -> dict[str, Any]:
        async with self._looking:
            return await self._look_up()

    async def _look_up(self) -> dict[str, Any]:
        until, about = self._about
        if time.monotonic() < until:
            return about
        if time.monotonic() < self._away_until:  # nobody makes us knock all the time
            raise OidcRefused(_AWAY, away=True)
        issuer = self.settings.issuer
        found = await self._fetch("GET", issuer.rstrip("/") + "/.well-known/openid-configuration")
        if found.get("issuer") != issuer:
            raise OidcRefused("the identity provider has another issuer than the settings")
        for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
            try:
                url = check_provider_url(str(found.get(name, "")), name)
            except UserError:
                raise OidcRefused(f"the identity provider has no usable {name}") from None
            if issuer.startswith("https:") and not url.startswith("https:"):
                raise OidcRefused(f"the identity provider has no usable {name}")
        self._about = (time.monotonic() + _KNOWN, found)
        return found

    async def _key_set(self, *, again: bool) -> Any:
        from joserfc.errors import JoseError
        from joserfc.jwk import KeySet

        until, known = self._keys
        old = time.monotonic() >= until
        if known is not None and not old and not (again and time.monotonic() >= until - _KNOWN + _AGAIN):
            return known
        found = await self._fetch("GET", (await self._discovered())["jwks_uri"])
        try:
            keys = [key for key in found.get("keys", []) if key.get("kty") != "oct" and key.get("use", "sig") == "sig"]
            made = KeySet.import_key_set(cast("Any", {"keys": keys}))
        except (JoseError, ValueError, TypeError, AttributeError, LookupError):
            raise OidcRefused("the keys of the identity provider cannot be read") from None
        self._keys = (time.monotonic() + _KNOWN, made)
        return made

    async def _fetch(self, method: str, url: str, **words: Any) -> dict[str, Any]:
        import httpx2

        async def got() -> tuple[int, bytes]:
            async with (
                asyncio.timeout(_SECONDS),
                httpx2.AsyncClient(
                    timeout=_SECONDS, follow_redirects=False, trust_env=False, **self._options()
                ) as client,
                client.stream(method, url, headers=_PLAIN, **words) as answer,
            ):
                body = b""
                async for part in answer.aiter_raw():  # what is compressed could be of any size, and was not asked for
                    body += part
                    if len(body) > _MOST_BYTES:
                        raise OidcRefused("the answer of the identity provider is too long")
                return answer.status_code, body

        try:
            status, body = await got()
        except (httpx2.HTTPError, TimeoutError):
            self._away_until = time.monotonic() + _PAUSE
            raise OidcRefused(_AWAY, away=True) from None
        if status >= 500:
            self._away_until = time.monotonic() + _PAUSE
            raise OidcRefused(
                "the identity provider has an error: try again later, or sign in with a passkey or a password",
                away=True,
            )
        try:
            found: Any = parse(body)
        except BadJson:
            found = None
        if status != 200 or not isinstance(found, dict):
            raise OidcRefused("the identity provider refused the sign-in")
        return cast("dict[str, Any]", found)

    def _options(self) -> dict[str, Any]:
        if self._trusted is None:  # read from files: once is enough
            self._trusted = ssl.create_default_context()
        more = {} if self._transport is None else {"transport": self._transport}
        return {"verify": self._trusted, **more}


def _values_of(claims: dict[str, Any], name: str) -> frozenset[str]:
    """Return the texts of a claim, which is a text or a list of them; nothing of any other."""
    found: Any = claims.get(name)
    if name not in claims:
        found = claims
        for part in name.split("."):
            found = cast("dict[str, Any]", found).get(part) if isinstance(found, dict) else None
    values = cast("list[Any]", found) if isinstance(found, list) else [found]
    return frozenset(each for each in values if isinstance(each, str))


def _number(claims: dict[str, Any], name: str) -> float:
    found: object = claims.get(name)
    if isinstance(found, bool) or not isinstance(found, int | float) or not -_FAR < found < _FAR:
        raise OidcRefused(f"the ID token has no valid {name}")
    return float(found)
