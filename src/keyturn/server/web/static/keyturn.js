// Makes the pages live and gives them keys. Everything works without it, but for what has to wait for a finger.
(() => {
  "use strict";
  const root = document.body.dataset.root || "";
  const html = document.documentElement;
  html.classList.add("js", "live");
  // Pages show times of this zone. It is a name and no time, so that a clock that is wrong does nothing.
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (zone) document.cookie = `keyturn_zone=${encodeURIComponent(zone)}; path=${root || "/"}; max-age=31536000; samesite=lax`;
  const one = (selector, inside = document) => inside.querySelector(selector);
  const all = (selector, inside = document) => [...inside.querySelectorAll(selector)];
  const wide = matchMedia("(min-width: 801px)");
  const list = () => one("#rows");
  const rows = () => all(".row", list() || document.createElement("i"));
  const current = () => one(".row.on");

  // Telling --------------------------------------------------------------------------------------------------------
  const tell = (text, ms = 4000) => {
    const at = one("#notice");
    at.textContent = text;
    at.hidden = false;
    clearTimeout(tell.timer);
    tell.timer = setTimeout(() => (at.hidden = true), ms);
  };

  // Opening a request beside the list ----------------------------------------------------------------------------------
  const choose = (row, focus = true) => {
    if (!row) return;
    if (!wide.matches) return location.assign(row.href);
    current()?.removeAttribute("aria-current");
    current()?.classList.remove("on");
    row.classList.add("on");
    row.setAttribute("aria-current", "true");
    if (focus) row.focus({ preventScroll: true });
    row.scrollIntoView({ block: "nearest" });
    hold();
    htmx.ajax("GET", row.href, { target: "#detail", swap: "innerHTML" }).catch(() => {}).then(() => {
      if (row.dataset.id !== current()?.dataset.id) return; // another one was chosen since
      if (hold()) return tell("This request could not be loaded: choose it once more.");
      history.replaceState(null, "", row.href);
      one("#detail").scrollTop = 0;
    });
  };
  // Until the chosen request is there, the one before it is still on the page, and takes neither letters nor clicks.
  const hold = () => {
    const row = current(), open = one(".request"), detail = one("#detail");
    return detail && (detail.inert = !!row && !!open && row.dataset.id !== open.dataset.request);
  };
  document.addEventListener("click", (event) => {
    const row = event.target.closest("a.row");
    if (row && wide.matches && !event.metaKey && !event.ctrlKey && !event.shiftKey && event.button === 0) {
      event.preventDefault();
      choose(row);
    }
    for (const open of all("details.me[open], details.others[open]"))
      if (!open.contains(event.target)) open.open = false;
  });
  const step = (by) => {
    const there = rows();
    const at = there.indexOf(current());
    choose(there[Math.min(Math.max(at + by, 0), there.length - 1)]);
  };

  // A long payload is read before it is approved -------------------------------------------------------------------------
  const watched = new WeakSet();
  const ready = (inside) => {
    for (const block of all(".block.long", inside)) {
      if (watched.has(block)) continue;
      watched.add(block);
      one("[data-all]", block).addEventListener("click", (event) => {
        block.classList.add("whole");
        event.target.closest("button").setAttribute("aria-expanded", "true");
        const last = one("pre .r:last-of-type, tr:last-child", block) || block;
        const seen = new IntersectionObserver((found) => {
          if (!found.some((each) => each.isIntersecting)) return;
          seen.disconnect();
          block.dataset.read = "yes";
          const tick = one("[data-seen]");
          if (!tick || !all(".block.long").every((each) => each.dataset.read)) return;
          tick.checked = true;
        });
        seen.observe(last);
        one(".scroll", block).focus({ preventScroll: true });
      });
    }
    for (const tick of all("[data-seen]", inside)) {
      if (watched.has(tick)) continue;
      watched.add(tick);
      tick.addEventListener("click", (event) => {
        // It is ticked once every long block was opened and its end was on the screen; until then a click opens the next.
        const left = all(".block.long").find((each) => !each.dataset.read);
        if (!left) return;
        event.preventDefault();
        if (left.classList.contains("whole")) (one("pre .r:last-of-type, tr:last-child", left) || left).scrollIntoView({ block: "nearest" });
        else one("[data-all]", left).click();
      });
    }
    for (const button of all("[data-look]", inside)) if (!watched.has(button) && +button.dataset.look > 0) button.disabled = true;
    for (const button of all("[data-hold]", inside)) holding(button);
    for (const button of all("[data-opens]", inside)) opening(button);
  };

  // A word for the model is asked for where the button is ---------------------------------------------------------------
  const opening = (button) => {
    if (watched.has(button)) return;
    watched.add(button);
    button.addEventListener("click", (event) => {
      const form = button.form;
      const words = one("[data-words]", form);
      if (!words || (!words.hidden && words.dataset.of === button.value)) return;
      event.preventDefault();
      event.stopPropagation();
      words.hidden = false;
      words.dataset.of = button.value;
      for (const told of all("[data-when]", words)) told.hidden = told.dataset.when !== button.value;
      one("[data-for]", words).textContent = button.dataset.label || "Reason, for the model to read (optional)";
      button.closest("details")?.removeAttribute("open");
      one("textarea", words).focus();
      words.dataset.sends = button.value;
      let send = one("[data-send]", words);
      if (!send) {
        send = document.createElement("button");
        send.dataset.send = "yes";
        send.className = "second";
        send.name = "verdict";
        send.formNoValidate = true;
        const cancel = document.createElement("button");
        cancel.type = "button";
        cancel.className = "plain";
        cancel.textContent = "Cancel";
        cancel.addEventListener("click", () => (words.hidden = true));
        words.append(send, " ", cancel);
      }
      send.value = button.value;
      send.textContent = button.value === "reject" ? "Reject this call" : "Ask the agent";
    }, true);
  };

  // What is risky takes a held finger, or a second press --------------------------------------------------------------------
  const holding = (button) => {
    if (watched.has(button)) return;
    watched.add(button);
    let timer = 0, done = false, armed = 0;
    const begin = () => {
      if (button.disabled || timer) return;
      button.classList.add("held");
      timer = setTimeout(() => { done = true; button.classList.remove("held"); button.form.requestSubmit(button); }, +button.dataset.hold);
    };
    const end = () => { clearTimeout(timer); timer = 0; button.classList.remove("held"); };
    button.addEventListener("pointerdown", begin);
    for (const name of ["pointerup", "pointerleave", "pointercancel"]) button.addEventListener(name, end);
    button.addEventListener("click", (event) => {
      if (done) { done = false; return; }
      if (Date.now() - armed < 5000 && armed) { armed = 0; return; }
      event.preventDefault();
      event.stopPropagation();
      armed = Date.now();
      const how = event.detail || !button.dataset.key ? (matchMedia("(pointer: coarse)").matches ? "tap the button" : "click the button") : `press the key ${button.dataset.key.toUpperCase()}`;
      tell(`High risk: ${how} again within five seconds, or hold the button.`, 5000);
    }, true);
  };

  // That somebody looks at a request is said once, after it was on the screen for a moment ---------------------------------
  const looked = new Set();
  const look = () => {
    const open = one(".request[data-state=open]");
    const form = open && one("[name=csrf_token]", open);
    const key = open && `${open.dataset.request}.${open.dataset.revision}`;
    if (!form || looked.has(key) || !one("[name=digest]", open) || !one("[data-actions] [name=verdict]", open)) return;
    setTimeout(() => {
      if (one(".request") !== open || document.hidden || looked.has(key)) return;
      looked.add(key);
      const body = new URLSearchParams({ csrf_token: form.value });
      for (const name of ["digest", "revision"]) body.set(name, one(`[name=${name}]`, open)?.value || "");
      fetch(`${root}/requests/${open.dataset.request}/looked`, { method: "POST", body, headers: { accept: "application/json" } })
        .then((answer) => (answer.ok ? answer.json() : { left: 0 }))
        .then((told) => waiting(open, told.left))
        .catch(() => looked.delete(key));
    }, 700);
  };
  // Who approves looks at it first, where its terms say so: the server counts, and the button says how long still.
  const waiting = (open, left) => {
    const until = performance.now() + left;
    const buttons = all("[data-look]", open);
    const told = one("[data-looking]", open), count = one("[data-look-left]", open);
    const show = () => {
      if (!open.isConnected) return;
      const ms = until - performance.now();
      for (const button of buttons) button.disabled = ms > 0;
      if (told) told.hidden = ms <= 0;
      if (!count || ms <= 0) return;
      count.parentElement.hidden = false;
      count.textContent = `${Math.ceil(ms / 1000)} s`;
      setTimeout(show, Math.min(250, ms));
    };
    if (one("[data-gone]", open)?.hidden !== false) show();
  };

  // Clocks go by the server's time -------------------------------------------------------------------------------------
  const span = (ms) => {
    let s = Math.max(0, Math.floor(ms / 1000));
    const d = Math.floor(s / 86400), h = Math.floor((s % 86400) / 3600), m = Math.floor((s % 3600) / 60);
    if (d) return h ? `${d} d ${h} h` : `${d} d`;
    if (h) return m ? `${h} h ${m} min` : `${h} h`;
    return m ? `${m} min` : `${s} s`;
  };
  const tick = () => {
    for (const clock of all(".clock[data-until]")) {
      clock.begun ??= performance.now();
      const left = +clock.dataset.until - +clock.dataset.now - (performance.now() - clock.begun);
      one("[data-left]", clock).textContent = span(left);
      one("progress", clock).value = Math.max(0, left);
      clock.classList.toggle("late", left < 600000);
      if (left <= 0) ended("This request expired. The call does not run.");
    }
    for (const left of all(".row:not(.done) [data-left]")) {
      left.begun ??= performance.now();
      const ms = +left.dataset.left - (performance.now() - left.begun);
      left.textContent = ms > 0 ? `${span(ms)} left` : "expired";
      left.classList.toggle("late", ms < 600000);
    }
  };
  // An approval that can be undone says for how long still; then what became of it is looked up.
  const undoing = () => {
    for (const left of all("[data-undo]")) {
      left.begun ??= performance.now();
      const ms = +left.dataset.undo - (performance.now() - left.begun);
      left.textContent = `${Math.max(0, Math.ceil(ms / 1000))} s`;
      if (ms > 0 || left.over) continue;
      left.over = true;
      setTimeout(() => one("#outcome") && htmx.trigger(one("#outcome"), "changed"), 500);
    }
  };
  setInterval(undoing, 250);
  setInterval(tick, 1000);

  // Live ---------------------------------------------------------------------------------------------------------------
  const ended = (text) => {
    const gone = one("[data-gone]");
    if (!gone || !gone.hidden) return;
    gone.textContent = text;
    gone.hidden = false;
    for (const button of all("[data-actions] button, [data-actions] input, [data-actions] textarea")) button.disabled = true;
  };
  let known = null;
  let source = null;
  const runShown = () => one(".request")?.dataset.run || one("[data-run]")?.dataset.run || "";
  const listen = () => {
    if (!one("[data-live]")) return;
    const query = new URLSearchParams(location.search);
    const run = runShown();
    if (run) query.set("run", run);
    source?.close();
    source = new EventSource(`${root}/live?${query}`);
    source.of = run;
    source.addEventListener("inbox", (event) => {
      const told = JSON.parse(event.data);
      changed(told);
      document.dispatchEvent(new CustomEvent("keyturn:told", { detail: told }));
    });
    source.addEventListener("error", () => html.classList.add("away"));
    source.addEventListener("open", () => html.classList.remove("away"));
  };
  addEventListener("pagehide", () => source?.close());
  // What the page shows of the log may be older than what was told of it: then it is looked up again.
  const catchUp = () => {
    const at = one("#outcome");
    if (at && known && source?.of === runShown() && known.head > +at.dataset.head) htmx.trigger(at, "changed");
    if (source && source.of !== runShown()) {
      clearTimeout(listen.timer);
      listen.timer = setTimeout(listen, 250);
    }
  };
  const changed = (told) => {
    const count = one("#waiting");
    if (count) count.textContent = told.count ? String(told.count) : "";
    if (one("#inbox")) document.title = document.title.replace(/^(\(\d+\) )?/, told.count ? `(${told.count}) ` : "");
    const now = new Map(told.rows.map((row) => [row.slice(0, row.indexOf(".")), row]));
    if (list() || one("#inbox")) {
      for (const row of rows()) row.classList.toggle("done", !now.has(row.dataset.id) && told.count <= 50);
      const shown = new Set(rows().map((row) => row.dataset.id));
      const fresh = [...now.keys()].filter((id) => !shown.has(id)).length;
      const at = one("#fresh");
      if (at) {
        at.hidden = !fresh;
        one("[data-count]", at).textContent = fresh;
        one("[data-words]", at).textContent = fresh === 1 ? "new request" : "new requests";
      }
    }
    const open = one(".request");
    if (open) {
      const id = open.dataset.request;
      // A list that is filtered need not show the request that is open beside it: its run says what became of it.
      const asked = told.open && source?.of === open.dataset.run && new Map(told.open.map((each) => each.split(".")));
      if (asked && open.dataset.state === "open" && !asked.has(id)) {
        const clock = one(".clock[data-until]"), late = clock && +clock.dataset.until - +clock.dataset.now <= performance.now() - (clock.begun ?? Infinity);
        ended(late ? "This request expired. The call does not run." : "This request is no longer pending. See what happened below.");
      } else if (asked && asked.has(id) && asked.get(id) !== open.dataset.revision) {
        ended("This request changed while you viewed it. Reload it before you decide.");
      }
    }
    known = told;
    catchUp();
  };
  const renew = async () => {
    const answer = await fetch(location.pathname.includes("/requests/") ? `${root}/${location.search}` : location.href, { headers: { accept: "text/html" } });
    const made = new DOMParser().parseFromString(await answer.text(), "text/html");
    const from = one("#rows", made), to = one("#rows") || one(".list .empty");
    if (!from || !to) return location.reload();
    const id = current()?.dataset.id;
    to.replaceWith(from);
    for (const row of rows()) {
      row.classList.toggle("on", row.dataset.id === id);
    }
    one("#fresh").hidden = true;
    hold();
  };
  one("#fresh")?.addEventListener("click", renew);
  one(".filters")?.addEventListener("change", (event) => event.target.form.requestSubmit());

  // Keys: the same letters as on the console -----------------------------------------------------------------------------
  const press = (letter, repeated) => {
    if (one("#detail")?.inert) return false;
    const found = one(`:is([data-actions], [data-answered]) [data-key="${letter}"]`);
    if (!found || found.disabled) return false;
    if (repeated && found.hasAttribute("data-hold")) return true; // a key that is held down is one press
    if (found.tagName !== "A") found.focus();
    found.click();
    return true;
  };
  document.addEventListener("keydown", (event) => {
    if (event.metaKey || event.ctrlKey || event.altKey || event.isComposing) return;
    const typing = event.target.closest("input:not([type=checkbox]), textarea, select");
    if (event.key === "Escape") {
      if (typing?.type === "search") typing.value = typing.defaultValue;
      if (typing) return typing.blur();
      const words = one("[data-words]:not([hidden])");
      if (words) return (words.hidden = true);
      return one("dialog[open]")?.close();
    }
    if (typing) return;
    const key = event.key;
    let done = true;
    if (key === "j" || key === "ArrowDown" && event.target.closest(".row")) step(1);
    else if (key === "k" || key === "ArrowUp" && event.target.closest(".row")) step(-1);
    else if (key === "/") one("[data-key='/']")?.focus();
    else if (key === "n" && one("#fresh") && !one("#fresh").hidden) renew();
    else if (key === "?") help();
    else if ("aerwgdxu".includes(key) && key.length === 1) done = press(key, event.repeat);
    else done = false;
    if (done) event.preventDefault();
  });
  const help = () => {
    let box = one("#keys");
    if (!box) {
      box = document.createElement("dialog");
      box.id = "keys";
      const words = [["j / k", "next, previous request"], ["Enter", "open"], ["a", "approve"], ["e", "edit"], ["r", "reject"], ["w", "answer"], ["g", "approve and create a grant"], ["u", "withdraw your vote or approval"], ["n", "show new requests"], ["/", "search"], ["Esc", "leave a field, close"], ["?", "these keys"]];
      const at = document.createElement("dl");
      for (const [key, what] of words) {
        const dt = document.createElement("dt"), dd = document.createElement("dd");
        dt.textContent = key; dd.textContent = what;
        at.append(dt, dd);
      }
      const title = document.createElement("h2");
      title.textContent = "Keys";
      box.append(title, at);
      document.body.append(box);
    }
    box.showModal();
  };

  // What was recorded shows in the list in the same moment.
  const follow = () => {
    const open = one("#detail .request"), row = open && rows().find((each) => each.dataset.id === open.dataset.request);
    if (!row) return;
    row.classList.toggle("done", open.dataset.state !== "open");
    const left = one(".left", row);
    if (open.dataset.word) left.textContent = open.dataset.word;
    else if (!left.dataset.left) left.textContent = one("[data-left]", open) ? `${one("[data-left]", open).textContent} left` : "";
    if (!open.dataset.votes) return;
    const more = one(".more", row), votes = one(".votes", more) || more.appendChild(document.createElement("span"));
    votes.className = "votes";
    votes.textContent = `${open.dataset.votes} approvals`;
  };
  document.addEventListener("htmx:after:swap", () => {
    hold();
    follow();
    ready(document);
    look();
    catchUp();
    const told = one("#detail .told.danger[role=alert]") || one("#detail [data-again]");
    if (told) told.scrollIntoView({ block: "nearest" });
  });
  ready(document);
  look();
  tick();
  listen();
})();
