// Shows push messages and opens the request that they are about. It keeps no page and answers no request.
"use strict";
self.addEventListener("push", (event) => {
  let told = {};
  try { told = event.data.json(); } catch { told = {}; }
  const title = typeof told.title === "string" ? told.title : "Keyturn";
  const body = typeof told.body === "string" ? told.body : "Something waits for you.";
  const request = typeof told.request === "string" && /^[0-9a-f]{16,64}$/.test(told.request) ? told.request : "";
  // A later message about a request takes the place of the earlier one, and is heard as well.
  const shown = { body, tag: request || "keyturn", renotify: true, data: { request } };
  event.waitUntil(self.registration.showNotification(title, shown));
});
self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  const { request } = event.notification.data || {};
  const path = new URL(request ? `requests/${request}` : ".", self.registration.scope).href;
  event.waitUntil((async () => {
    const open = await self.clients.matchAll({ type: "window" });
    for (const each of open) if (each.url === path) return each.focus();
    return self.clients.openWindow(path);
  })());
});
