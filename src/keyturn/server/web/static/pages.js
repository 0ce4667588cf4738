// What the pages beside the inbox need: news of a run, and copying. Everything works without it.
(() => {
  "use strict";
  const one = (selector, inside = document) => inside.querySelector(selector);

  // A run that went on while somebody looks: it is said, and nothing moves until they ask for it.
  const lines = one("[data-live=run]");
  const more = one("#more-lines");
  if (lines && more) {
    const show = () => location.replace(location.pathname);
    document.addEventListener("keyturn:told", (event) => {
      const fresh = (event.detail.head || 0) - Number(lines.dataset.head);
      if (fresh <= 0) return;
      more.hidden = false;
      one("[data-count]", more).textContent = String(fresh);
      one("[data-words]", more).textContent = fresh === 1 ? "new line: show it" : "new lines: show them";
    });
    more.addEventListener("click", show);
    document.addEventListener("keydown", (event) => {
      if (event.key === "n" && !more.hidden && !event.target.closest("input, textarea, select")) show();
    });
  }

  // On a narrow screen the name of this page is scrolled to.
  one(".bar nav [aria-current]")?.scrollIntoView({ inline: "center", block: "nearest" });

  // What is shown once can be copied.
  for (const button of document.querySelectorAll("[data-copy]")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(one(button.dataset.copy).textContent);
      button.textContent = "Copied";
    });
  }
})();
