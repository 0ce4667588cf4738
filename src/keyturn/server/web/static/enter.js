// Takes what stands behind the # out of the address and into the form. A person presses the button: what only opens
// links, to look at them, uses nothing up.
(() => {
  "use strict";
  const field = document.querySelector("[data-enter-field] input");
  if (field && location.hash.length > 1) {
    field.value = location.hash.slice(1);
    field.type = "password";
    history.replaceState(null, "", location.pathname);
    document.querySelector("[data-enter-field]").hidden = true;
    document.querySelector("[data-enter-told]").textContent =
      "Your link is here. It works once; then you choose a passkey or a password.";
    document.querySelector("form button.first").focus();
  }
  const on = document.querySelector("[data-go-on]");
  if (on) {
    history.replaceState(null, "", location.pathname);
    on.requestSubmit();
  }
})();
