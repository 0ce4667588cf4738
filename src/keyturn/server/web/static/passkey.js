// Passkeys: log in by one, enrol one, confirm one, sign a decision with one. What is signed is said by the server.
(() => {
  "use strict";
  const root = document.body.dataset.root || "";
  if (!window.PublicKeyCredential || !PublicKeyCredential.parseRequestOptionsFromJSON) return;

  const mark = () =>
    document.querySelector("[data-form-mark]")?.dataset.formMark ||
    document.querySelector("input[name=csrf_token]")?.value || "";

  const ask = async (path, body) => {
    const answer = await fetch(root + path, {
      method: "POST",
      headers: { "content-type": "application/json", "x-csrf-token": mark() },
      body: JSON.stringify(body),
    });
    const found = await answer.json().catch(() => ({}));
    if (!answer.ok) throw new Error(found.error?.message || "the server is unreachable");
    return found;
  };
  const sign = async (options) =>
    (await navigator.credentials.get({ publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(options) })).toJSON();
  const make = async (options) =>
    (await navigator.credentials.create({ publicKey: PublicKeyCredential.parseCreationOptionsFromJSON(options) })).toJSON();

  const logIn = async (button) => {
    const credential = await sign(await ask("/login/passkey/options", {}));
    const { next } = await ask("/login/passkey", { credential, next: button.dataset.next || "/" });
    location.assign(next);
  };
  const enrol = async (button) => {
    const label = document.querySelector("[data-passkey-label]")?.value.trim() || "";
    const registration = await make(await ask("/account/passkeys/options", {}));
    const credential = await sign(await ask("/account/passkeys", { registration, label }));
    await ask("/account/passkeys", { registration, label, credential });
    location.assign(root + (button.dataset.then || "/account?done=passkey"));
  };
  const confirm = async (button) => {
    const key = button.dataset.key;
    const asked = await ask("/account/passkeys/confirm", { key });
    if (asked.challenge) await ask("/account/passkeys/confirm", { key, credential: await sign(asked) });
    location.assign(button.dataset.next || root + "/account?done=confirmed");
  };
  const DOES = { login: logIn, enrol, confirm };

  const saying = (error) => {
    if (error.name === "NotAllowedError") return "Nothing was signed: it was cancelled, or it timed out.";
    if (error.name === "InvalidStateError") return "This device has a passkey of yours already.";
    const text = String(error.message || error.name);
    return text.charAt(0).toUpperCase() + text.slice(1) + ".";
  };
  const near = (element) =>
    element.closest("section, form, .door, main")?.querySelector("[data-passkey-error]") ||
    document.querySelector("[data-passkey-error]");
  const trying = async (element, work) => {
    const at = near(element);
    if (at) at.textContent = "";
    element.disabled = true;
    element.dataset.signing = "yes"; // the page is not drawn anew meanwhile
    try {
      await work();
    } catch (error) {
      if (at) at.textContent = saying(error);
      else document.dispatchEvent(new CustomEvent("keyturn:told", { detail: saying(error) }));
    } finally {
      element.disabled = false;
      delete element.dataset.signing;
    }
  };

  for (const button of document.querySelectorAll("[data-passkey]")) button.hidden = false;
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-passkey]");
    if (button) trying(button, () => DOES[button.dataset.passkey](button));
  });

  // A form with data-signs is not sent but signed: its words go to the server twice, to be said as bytes and to be
  // recorded with the signature on them.
  const wordsOf = (form, button) => {
    const given = new FormData(form);
    const words = { request: form.dataset.signs, verdict: button.value };
    for (const name of ["digest", "message", "note", "seen"]) if (given.get(name)) words[name] = given.get(name);
    if (given.get("glass")) words.glass = true;
    if (/^\d{1,9}$/.test(given.get("revision") || "")) words.revision = Number(given.get("revision"));
    if (form.dataset.edit !== undefined) {
      words.looked = given.get("looked") || "";
      words.fields = {};
      for (const [name, value] of given) if (name.startsWith("arg.")) words.fields[name.slice(4)] = value;
    }
    if (given.get("output")) words.output = given.get("output");
    return words;
  };
  document.addEventListener("submit", (event) => {
    const form = event.target.closest("form[data-signs]");
    const button = event.submitter;
    if (!form || !button || !["approve", "edit", "reject", "ask_back", "answer", "ran", "did_not_run", "retry", "withdraw"].includes(button.value)) return;
    if (button.value === "retry" && !form.querySelector("[name=again]")) return; // the page asks first whether it runs again
    event.preventDefault();
    event.stopImmediatePropagation();
    trying(button, async () => {
      const words = wordsOf(form, button);
      const credential = await sign(await ask("/sign/options", words));
      location.assign((await ask("/sign", { ...words, credential })).next);
    });
  }, true);
})();
