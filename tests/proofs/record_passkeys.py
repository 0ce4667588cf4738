"""Record recorded_passkeys.json anew: `PYTHONPATH=src python tests/proofs/record_passkeys.py`.

It needs playwright and /usr/bin/chromium, whose virtual authenticator signs; the tests need neither.
"""

from __future__ import annotations

import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from keyturn.core.challenge import decision_challenge
from keyturn.core.records import Decision
from keyturn.proofs import scheme
from keyturn.proofs.base import Asked, Site
from keyturn.proofs.passkey import assertion_options, registration_options

SITE = Site("localhost", ("http://localhost:8177",))
REQUEST = "00112233445566778899aabbccddeeff"
AUTHENTICATOR = {"protocol": "ctap2", "transport": "internal", "hasResidentKey": True, "hasUserVerification": True,
                 "isUserVerified": True, "automaticPresenceSimulation": True}  # fmt: skip
CREATE = """async options => (await navigator.credentials.create(
    {publicKey: PublicKeyCredential.parseCreationOptionsFromJSON(options)})).toJSON()"""
GET = """async options => (await navigator.credentials.get(
    {publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(options)})).toJSON()"""


class Page(BaseHTTPRequestHandler):
    """An empty page."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()

    def log_message(self, format: str, *words: Any) -> None:
        """Say nothing."""


def case(browser: Any, name: str, algorithms: list[int]) -> dict[str, Any]:
    page = browser.new_context().new_page()
    page.goto(SITE.origins[0])
    session = page.context.new_cdp_session(page)
    session.send("WebAuthn.enable")
    added = session.send("WebAuthn.addVirtualAuthenticator", {"options": AUTHENTICATOR})
    challenge = hashlib.sha256(f"enrol {name}".encode()).digest()
    options = json.loads(registration_options(SITE, challenge, "ada", hashlib.sha256(name.encode()).digest()[:16]))
    if algorithms:
        options["pubKeyCredParams"] = [{"type": "public-key", "alg": number} for number in algorithms]
    registration = page.evaluate(CREATE, options)
    public = scheme("passkey").enrol(json.dumps(registration), asked=Asked(challenge, SITE))
    signed: list[dict[str, Any]] = []
    for verdict in ("approve", "reject"):
        said = decision_challenge("acme", REQUEST, 1, Decision("r/1.0", verdict, "5e1f" * 16))
        wanted = json.loads(assertion_options(said, [public]))
        signed.append({"verdict": verdict, "challenge": said.hex(), "answer": page.evaluate(GET, wanted)})
    words = {"authenticatorId": added["authenticatorId"], "isUserVerified": False}
    session.send("WebAuthn.setUserVerified", words)
    unsure = {**json.loads(assertion_options(said, [public])), "userVerification": "discouraged"}
    return {
        "name": name,
        "browser": f"Chromium {browser.version}",
        "enrolled_challenge": challenge.hex(),
        "registration": registration,
        "signed": signed,
        "not_verified": {"challenge": said.hex(), "answer": page.evaluate(GET, unsure)},
    }


def main() -> None:
    from playwright.sync_api import sync_playwright

    server = ThreadingHTTPServer(("127.0.0.1", 8177), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with sync_playwright() as play:
        words = ["--no-sandbox", "--disable-background-networking", "--disable-component-update", "--no-first-run"]
        browser = play.chromium.launch(executable_path="/usr/bin/chromium", args=words)
        kinds: dict[str, list[int]] = {"es256": [-7], "eddsa": [-8], "rs256": [-257], "default": []}
        made = [case(browser, name, algorithms) for name, algorithms in kinds.items()]
        browser.close()
    path = Path(__file__).with_name("recorded_passkeys.json")
    path.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
