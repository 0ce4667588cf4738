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
  });
  // A menu closes with the next press, also with one that a button keeps to itself.
  const menus = () => all("details.me[open], details.others[open]");
  document.addEventListener("click", (event) => {
    for (const open of menus()) if (!open.contains(event.target)) open.open = false;
  }, true);
  const step = (by) => {
    const there = rows();
    const at = there.indexOf(current());
    choose(there[Math.min(Math.max(at + by, 0), there.length - 1)]);
  };

  // A long payload is read before it is approved -------------------------------------------------------------------------
  const watched = new WeakSet();
  const read = new Set(); // payloads that were read to their end on this page: after an undo the same is not read anew
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
          read.add(tick.value);
          tick.setCustomValidity("");
          one("#notice").hidden = true;
        });
        seen.observe(last);
        one(".scroll", block).focus({ preventScroll: true });
      });
    }
    for (const tick of all("[data-seen]", inside)) {
      if (watched.has(tick)) continue;
      watched.add(tick);
      if (read.has(tick.value)) {
        tick.checked = true;
        for (const block of all(".block.long")) block.dataset.read = "yes";
      }
      tick.addEventListener("change", () => tick.checked && read.add(tick.value));
      if (all(".block.long").some((each) => !each.dataset.read)) tick.setCustomValidity("Open all of it and read to its end: the box is then ticked.");
      tick.addEventListener("click", (event) => {
        // It is ticked once every long block was opened and its end was on the screen; until then a click opens the next.
        const left = all(".block.long").find((each) => !each.dataset.read);
        if (!left) return;
        event.preventDefault();
        if (!left.classList.contains("whole")) one("[data-all]", left).click();
        else (one("pre .r:last-of-type, tr:last-child", left) || left).scrollIntoView({ block: "nearest" });
        tell("Read on to the end: the box is ticked there.");
      });
    }
    for (const button of all("[data-look]", inside)) if (!watched.has(button) && +button.dataset.look > 0) button.disabled = true;
    for (const button of all("[data-hold]", inside)) holding(button);
    for (const button of all("[data-opens]", inside)) opening(button);
  };

  // What is filled in below a choice chooses it
  document.addEventListener("input", (event) => {
    const choice = event.target.closest?.(".choice"), radio = choice && one("input[type=radio]", choice);
    if (radio && radio !== event.target) radio.checked = true;
    one("[data-refused]", event.target.form || document)?.remove(); // it was about what stood there before
  }, true);

  // A word for the model is asked for where the button is ---------------------------------------------------------------
  const opening = (button) => {
    if (watched.has(button)) return;
    watched.add(button);
    button.addEventListener("click", (event) => {
      const words = one("[data-words]", button.form);
      if (!words || (!words.hidden && words.dataset.of === button.value)) return;
      event.preventDefault();
      event.stopPropagation();
      opens(button, words);
      const note = one("[name=note]", button.form);
      if (note && !one("textarea", words).value) one("textarea", words).value = note.value;
      button.closest("details")?.removeAttribute("open");
      one("textarea", words).focus({ preventScroll: true });
    }, true);
  };
  const opens = (button, words) => {
    words.hidden = false;
    words.dataset.of = button.value;
    for (const told of all("[data-when]", words)) told.hidden = told.dataset.when !== button.value;
    one("[data-for]", words).textContent = button.dataset.label || words.dataset.label;
    let send = one("[data-send]", words);
    if (!send) {
      send = document.createElement("button");
      send.dataset.send = "yes";
      send.className = "second";
      send.name = "verdict";
      send.formNoValidate = true;
      send.addEventListener("click", (event) => {
        // One reason is asked for: where the terms require one, it is the one of the audit log as well.
        const text = one("textarea", words), note = one("[name=note]", send.form);
        text.required = words.dataset.needed !== undefined;
        if (!text.reportValidity()) return event.preventDefault();
        if (note) note.value = text.value.slice(0, 1000);
      });
      const cancel = document.createElement("button");
      cancel.type = "button";
      cancel.className = "plain";
      cancel.textContent = "Cancel";
      cancel.addEventListener("click", () => (words.hidden = true));
      words.append(send, " ", cancel);
    }
    send.value = button.value;
    send.textContent = button.dataset.says || (button.value === "reject" ? "Reject this call" : "Ask the agent");
  };

  // What is risky takes a held finger, or a second press --------------------------------------------------------------------
  // The finger that held a button is still down when the answer comes: lifting it presses nothing of what is there now.
  let lifting = false;
  for (const name of ["pointerup", "pointercancel"]) addEventListener(name, () => setTimeout(() => { lifting = false; }, 300), true);
  addEventListener("pointerdown", () => { lifting = false; }, true);
  addEventListener("click", (event) => {
    if (!lifting) return;
    event.preventDefault();
    event.stopPropagation();
  }, true);
  const holding = (button) => {
    if (watched.has(button)) return;
    watched.add(button);
    let timer = 0, armed = 0;
    const sent = () => { lifting = true; one("#notice").hidden = true; button.classList.remove("held"); button.form.requestSubmit(button); };
    const begin = () => {
      if (button.disabled || timer) return;
      button.classList.add("held");
      timer = setTimeout(sent, +button.dataset.hold);
    };
    const end = () => { clearTimeout(timer); timer = 0; button.classList.remove("held"); };
    button.addEventListener("pointerdown", begin);
    for (const name of ["pointerup", "pointerleave", "pointercancel"]) button.addEventListener(name, end);
    button.addEventListener("click", (event) => {
      if (Date.now() - armed < 5000 && armed) { armed = 0; one("#notice").hidden = true; return; }
      event.preventDefault();
      event.stopPropagation();
      armed = Date.now();
      const how = event.detail || !button.dataset.key ? (matchMedia("(pointer: coarse)").matches ? "tap the button" : "click the button") : `press the key ${button.dataset.key.toUpperCase()}`;
      tell(`High risk: ${how} again within five seconds, or hold the button.`, 5000);
      again(button);
    }, true);
  };

  // For as long as a second press decides, the button says so itself.
  const again = (button) => {
    const [words] = button.childNodes, before = words.nodeValue;
    if (before.startsWith("Again")) return;
    words.nodeValue = "Again, or hold ";
    setTimeout(() => (words.nodeValue = before), 5000);
  };

  // That somebody looks at a request is said once, after it was on the screen for a moment ---------------------------------
  const looked = new Set();
  let sending = 0; // how many forms are under way
  const look = () => {
    const open = one(".request[data-state=open]");
    const form = open && one("[name=csrf_token]", open);
    const key = open && `${open.dataset.request}.${open.dataset.revision}`;
    if (!form || !one("[name=digest]", open) || !one("[data-actions] [name=verdict]", open)) return;
    if (looked.has(key)) return waiting(open, +one("[data-look]", open)?.dataset.look || 0);
    setTimeout(() => {
      // Beside a list on a small screen it is not drawn, and nobody has looked at it.
      if (one(".request") !== open || document.hidden || !open.getClientRects().length || looked.has(key)) return;
      looked.add(key);
      const body = new URLSearchParams({ csrf_token: form.value });
      for (const name of ["digest", "revision"]) body.set(name, one(`[name=${name}]`, open)?.value || "");
      sending += 1;
      fetch(`${root}/requests/${open.dataset.request}/looked`, { method: "POST", body, headers: { accept: "application/json" } })
        .then((answer) => (answer.ok ? answer.json() : { left: 0 }))
        .then((told) => {
          if (told.head === +open.dataset.head + 1) open.dataset.head = told.head; // the look alone changes nothing here
          waiting(open, told.left);
        })
        .catch(() => looked.delete(key))
        .finally(() => { sending -= 1; });
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
    show();
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
      if (left <= 0 && !clock.over) {
        clock.over = true;
        renewed();
      }
    }
    for (const left of all(".row:not(.done) [data-left]")) {
      left.begun ??= performance.now();
      const ms = +left.dataset.left - (performance.now() - left.begun);
      left.textContent = `${span(ms)} left`;
      left.classList.toggle("late", ms < 600000);
      if (ms > 0 || left.over) continue;
      left.over = true;
      rowsAnew([left.closest(".row")]);
    }
    for (const time of all("[data-ago]")) {
      time.begun ??= performance.now();
      time.textContent = `${span(+time.dataset.ago + performance.now() - time.begun)} ago`;
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
      setTimeout(renewed, 500);
    }
  };
  // Sentences with a time in them are drawn anew each minute, unless a text is selected to be copied.
  setInterval(() => !document.hidden && getSelection().isCollapsed && one(".request:not(.alone)") && renewed(), 60000);
  setInterval(undoing, 250);
  setInterval(tick, 1000);

  // Live ---------------------------------------------------------------------------------------------------------------
  // One moment: a request is drawn anew as a whole by the server, with its row of the list, so that no two parts of the
  // page are of different times. What was typed, opened and read stays; the server says at the buttons what changed.
  let pressed = false;
  document.addEventListener("htmx:before:request", () => { sending += 1; });
  document.addEventListener("htmx:finally:request", () => { sending -= 1; });
  for (const [name, is] of [["pointerdown", true], ["pointerup", false], ["pointercancel", false]])
    addEventListener(name, () => { pressed = is; }, true);
  // A finger on a button, a form that is under way, and a signature that is being made are waited for.
  const quiet = async () => {
    while (pressed || sending || one("[data-signing]")) await new Promise((done) => setTimeout(done, 100));
  };
  const renewed = async () => {
    const open = one(".request");
    if (!open || open.renewing) return;
    open.renewing = true;
    const answer = await fetch(`${root}${open.dataset.from}?since=${open.dataset.since}`, { headers: { accept: "text/html", "hx-request": "true" } }).catch(() => null);
    const made = answer && new DOMParser().parseFromString(await answer.text(), "text/html");
    await quiet();
    open.renewing = false;
    if (one(".request") !== open) return;
    if (!answer || answer.status === 429 || answer.status >= 500) return setTimeout(renewed, 2000);
    const fresh = one(".request", made);
    if (!fresh) return closed(open, answer.status === 401 ? "Your session ended: reload the page to sign in." : one(".empty p", made)?.textContent);
    const focused = carry(open, fresh);
    if (verdicts(open) !== verdicts(fresh)) calm(fresh);
    const now = placedIn(open, fresh);
    focused();
    htmx.process(now);
    settled();
    for (const fields of all(".fields[hx-post]", now)) htmx.trigger(fields, "change"); // what they come to is drawn anew
  };
  // What cannot be shown any more says so where the buttons are; what was typed stays to be read.
  const closed = (open, why) => {
    const actions = one("[data-actions]", open) || one("[data-answered]", open);
    if (!actions || one("[data-closed]", open)) return;
    const told = document.createElement("p");
    told.className = "told warn";
    told.dataset.closed = "yes";
    told.setAttribute("role", "status");
    told.textContent = why || "This request can no longer be shown.";
    actions.prepend(told);
    for (const each of all("button, input", actions)) each.disabled = true;
    open.dataset.head = Infinity;
  };
  const typedIn = (field) => field.matches("input, textarea") && field.type !== "hidden" && !/^(checkbox|radio|search)$/.test(field.type) && field.value !== field.defaultValue;
  const same = (open, fresh) => ["request", "revision", "state"].every((name) => open.dataset[name] === fresh.dataset[name]);
  // What would run is the same as long as it is asked in the same words: it stays, with what was opened and selected of it.
  const placedIn = (open, fresh) => {
    const read = one(":scope > .payload", open), anew = one(":scope > .payload", fresh);
    if (!read || !anew || !same(open, fresh)) {
      if (open.classList.contains("alone")) fresh.classList.add("alone");
      open.replaceWith(fresh);
      return fresh;
    }
    const parts = [...fresh.childNodes], at = parts.indexOf(anew);
    for (const each of [...open.childNodes]) if (each !== read) each.remove();
    read.before(...parts.slice(0, at));
    read.after(...parts.slice(at + 1));
    for (const each of fresh.attributes) open.setAttribute(each.name, each.value);
    return open;
  };
  // Carry over what was typed, ticked and opened, and return what gives the focus back.
  const carry = (open, fresh) => {
    for (const each of all("details[open]", open)) {
      const there = one(`details.${each.classList[0]}`, fresh);
      if (there) there.open = true;
    }
    const words = one("[data-words]:not([hidden])", open), again = one("[data-words]", fresh);
    const button = words && one(`[data-opens][value="${words.dataset.of}"]`, fresh);
    if (again && button) opens(button, again);
    const lost = all("[data-unsent] q", open).map((each) => each.textContent);
    for (const field of all("[name]", open)) {
      const there = all(`[name="${CSS.escape(field.name)}"]`, fresh).find((each) => each.type === field.type && (!/^(checkbox|radio)$/.test(field.type) || each.value === field.value));
      if (/^(checkbox|radio)$/.test(field.type)) { if (there && (same(open, fresh) || there.dataset.seen === undefined)) there.checked = field.checked; }
      else if (field.type === "select-one") { if (there) there.value = field.value; }
      else if (typedIn(field)) { if (there) there.value = field.value; else lost.push(`${(field.closest("label")?.querySelector("span")?.textContent || field.name).trim()}: ${field.value}`); }
    }
    unsent(fresh, lost);
    const refused = one("[data-refused]", open);
    if (refused && !one("[data-refused]", fresh)) {
      if (refused.dataset.lost === undefined) bar(fresh).prepend(refused);
      else if (verdicts(open) === verdicts(fresh)) unanswered(fresh, "not-arrived");
    }
    const at = document.activeElement;
    if (!open.contains(at)) return () => {};
    const key = at.dataset.key ? `[data-key="${at.dataset.key}"]` : at.name ? `[name="${CSS.escape(at.name)}"]` : "";
    const [from, to] = typedIn(at) ? [at.selectionStart, at.selectionEnd] : [null, null];
    return () => {
      const there = key ? one(`.request ${key}`) : null;
      there?.focus({ preventScroll: true });
      if (there && from !== null) there.setSelectionRange(from, to);
    };
  };
  // A form that is gone leaves what was typed into it to be read and copied.
  const unsent = (fresh, texts) => {
    if (!texts.length) return;
    const told = document.createElement("p");
    told.className = "told warn";
    told.dataset.unsent = "yes";
    told.append("Not sent: ");
    for (const text of texts) told.append(Object.assign(document.createElement("q"), { className: "theirs", textContent: text }), " ");
    bar(fresh).prepend(told);
  };
  // Where the buttons of a request are, or were.
  const bar = (request) => {
    const there = one("[data-actions], [data-answered], .actions", request);
    if (there) return there;
    request.append(Object.assign(document.createElement("div"), { className: "actions" }));
    return request.lastChild;
  };
  // A press that the server does not answer says so at the buttons, and what is on record is shown once it does.
  const unanswered = (request, which) => {
    const words = one(`template[data-${which}]`, request);
    if (!words) return;
    one("[data-refused]", request)?.remove();
    bar(request).prepend(words.content.cloneNode(true));
  };
  document.addEventListener("htmx:error", (event) => {
    const open = event.target.matches?.("form") && event.target.closest(".request");
    if (!open) return; // what a form shows of a change records nothing
    unanswered(open, "unanswered");
    renewed();
  });
  // Buttons that came or went while a finger was on its way take no press for a moment, nor do those of a new asking.
  const calm = (within) => {
    for (const each of all(".keys, .answer, .doubts", within)) {
      each.inert = true;
      setTimeout(() => (each.inert = false), 500);
    }
  };
  const asking = () => ({ ...one(".request")?.dataset });
  let asked = asking();
  const verdicts = (within) => all("[data-actions] button, [data-answered] button", within).map((each) => each.value).join();
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
    const away = (hidden) => (one("#away").hidden = hidden);
    source.addEventListener("error", () => (listen.away ??= setTimeout(away, 3000, false))); // a moment is nothing
    source.addEventListener("open", () => (listen.away = clearTimeout(listen.away), away(true)));
  };
  addEventListener("pagehide", () => source?.close());
  // What the page shows of the log may be older than what was told of it: then it is looked up again.
  const behind = () => one(".request") && known && source?.of === runShown() && known.head > +one(".request").dataset.head;
  const catchUp = () => {
    if (behind()) quiet().then(() => behind() && renewed());
    if (source && source.of !== runShown()) {
      clearTimeout(listen.timer);
      listen.timer = setTimeout(listen, 250);
    }
  };
  const changed = (told) => {
    const count = one("#waiting");
    if (count) count.textContent = told.count ? String(told.count) : "";
    if (one("#inbox")) document.title = document.title.replace(/^(\(\d+\) )?/, told.count ? `(${told.count}) ` : "");
    const now = new Map(told.rows.map((row) => row.split(".")));
    if (list() || one("#inbox")) {
      rowsAnew(rows().filter((row) => (now.has(row.dataset.id) ? now.get(row.dataset.id) !== row.dataset.stand : told.count <= 50 && row.dataset.state === "open")));
      const shown = new Set(rows().map((row) => row.dataset.id));
      const fresh = [...now.keys()].filter((id) => !shown.has(id)).length;
      const at = one("#fresh");
      if (at) {
        at.hidden = !fresh;
        one("[data-count]", at).textContent = fresh;
        one("[data-words]", at).textContent = fresh === 1 ? "new request" : "new requests";
      }
    }
    known = told;
    catchUp();
  };
  // Rows are drawn by the server where they stand: none comes, goes or moves.
  const placed = (row) => {
    const old = rows().find((each) => each.dataset.id === row.dataset.id);
    if (!old) return;
    for (const name of ["class", "aria-current"]) row.removeAttribute(name);
    row.className = `row${["open", "asked_back"].includes(row.dataset.state) ? "" : " done"}${old.classList.contains("on") ? " on" : ""}`;
    if (old.hasAttribute("aria-current")) row.setAttribute("aria-current", "true");
    const focused = document.activeElement === old;
    old.replaceWith(row);
    if (focused) row.focus({ preventScroll: true });
  };
  const rowsAnew = async (stale) => {
    const open = one(".request")?.dataset.request, ids = stale.map((row) => row.dataset.id).filter((id) => id !== open);
    if (!ids.length) return;
    const answer = await fetch(`${root}/rows?${new URLSearchParams(ids.map((id) => ["row", id]))}`, { headers: { accept: "text/html", "hx-request": "true" } }).catch(() => null);
    if (answer?.ok) for (const row of all(".row", new DOMParser().parseFromString(await answer.text(), "text/html"))) placed(row);
  };
  const renew = async () => {
    const answer = await fetch(location.pathname.includes("/requests/") ? `${root}/${location.search}` : location.href, { headers: { accept: "text/html" } });
    const made = new DOMParser().parseFromString(await answer.text(), "text/html");
    const from = one("#listed", made), to = one("#listed");
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
    if (!found || found.disabled || found.closest("[inert]")) return false;
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
      const [menu] = menus();
      if (menu) return (menu.open = false);
      const words = one(".words[data-words]:not([hidden])");
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

  const settled = () => {
    hold();
    const now = asking();
    if (now.request === asked.request && now.revision !== asked.revision) calm(document);
    asked = now;
    const row = one("[data-row]")?.content.querySelector(".row");
    if (row) placed(document.adoptNode(row));
    ready(document);
    look();
    tick();
    catchUp();
  };
  document.addEventListener("htmx:after:swap", () => {
    settled();
    const told = one("#detail [data-refused]") || one("#detail [data-again]");
    if (told) told.scrollIntoView({ block: "nearest" });
  });
  window.addEventListener("resize", look);
  ready(document);
  look();
  tick();
  listen();
})();
