// Subscribes this browser to push messages; its subscription is kept as the address at which its person is told.
(() => {
  "use strict";
  const root = document.body.dataset.root || "";
  if (!("serviceWorker" in navigator) || !("PushManager" in window)) return;

  const bytes = (text) =>
    Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (letter) => letter.charCodeAt(0));
  const subscription = async (key) => {
    if ((await Notification.requestPermission()) !== "granted") {
      throw new Error("Notifications are not allowed here: allow them in the settings of this browser.");
    }
    await navigator.serviceWorker.register(`${root}/push.js`, { scope: `${root}/` });
    const worker = await navigator.serviceWorker.ready;
    const made = await worker.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: bytes(key) });
    return JSON.stringify({ endpoint: made.endpoint, keys: made.toJSON().keys });
  };

  for (const form of document.querySelectorAll("form[data-push-key]")) {
    form.hidden = false;
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const told = form.querySelector("[role=status]");
      told.textContent = "";
      try {
        form.elements.address.value = await subscription(form.dataset.pushKey);
        form.submit();
      } catch (error) {
        told.textContent = error.name === "AbortError" ? "The push service of this browser cannot be reached." : error.message;
      }
    });
  }
})();
