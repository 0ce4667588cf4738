// Takes what stands behind the # out of the address and into the form, and asks the server whose link it is. A person
// presses the button of the page that says so: what only opens links, to look at them, uses nothing up.
(() => {
  "use strict";
  const form = document.querySelector("form[data-enter]");
  if (form && location.hash.length > 1) {
    const field = form.querySelector("input[name=link]");
    field.value = location.hash.slice(1);
    field.type = "password";
    history.replaceState(null, "", location.pathname + location.search);
    form.requestSubmit();
  }
  const on = document.querySelector("[data-go-on]");
  if (on) {
    if (location.pathname.endsWith("/callback")) history.replaceState(null, "", location.pathname);
    on.requestSubmit();
  }
})();
