// One call: a websocket to the server, the transcript, and what waits for a decision. All text of others is set as text.
import { Sound } from "./sound.js";

const by = (id) => document.getElementById(id);
const sound = new Sound(by("yours"), by("theirs"));
const waiting = new Map(); // what waits, by the id of its request
let shown = null; // the request on the screen
let socket = null;
let tries = 0;
let voice = null; // whose sound comes now: it is named with what was played of it
let over = false; // another window has the call, or there is none of this name

function connect() {
  const address = new URL("call", location.href);
  address.protocol = location.protocol === "https:" ? "wss:" : "ws:";
  address.search = new URLSearchParams(location.search).has("run") ? location.search : "";
  state("connecting", "connecting");
  socket = new WebSocket(address);
  socket.binaryType = "arraybuffer";
  socket.onmessage = ({ data }) => (typeof data === "string" ? heard(JSON.parse(data)) : play(data));
  socket.onclose = ({ reason }) => {
    sound.hush();
    waiting.clear();
    show(null);
    if (over) return;
    state("lost", reason || "not connected");
    setTimeout(connect, Math.min(10000, 500 * 2 ** tries++));
  };
}

function tell(message) {
  if (socket?.readyState !== WebSocket.OPEN) return false;
  socket.send(JSON.stringify(message));
  return true;
}

const HEARD = {
  call({ run }) {
    tries = 0;
    history.replaceState(null, "", `?run=${encodeURIComponent(run)}`);
    state("open", "connected");
  },
  line: draw,
  asks(request) {
    waiting.set(request.request, request);
    if (shown === null) show(request);
    else count();
  },
  decided({ request, words }) {
    if (!waiting.delete(request)) return;
    if (shown?.request === request) outcome(words);
    count();
  },
  voice({ item, part }) {
    voice = { item, part };
  },
  hush: () => sound.hush(),
  told({ words }) {
    told(words);
    locked(false); // if a decision was refused, it can be made again
  },
  over({ words }) {
    over = true;
    state("lost", words);
    told(words);
  },
};

function play(data) {
  const whose = voice;
  sound.play(data, (ms) => tell({ type: "played", ...whose, ms }));
}

function heard(message) {
  HEARD[message.type]?.(message);
}

function state(kind, words) {
  by("state").dataset.state = kind;
  by("state").lastElementChild.textContent = words;
}

function told(words) {
  by("told").textContent = words;
  by("told").hidden = !words;
}

// The transcript.

function draw({ id, who, words, name }) {
  const list = by("lines");
  let line = [...list.children].find((each) => each.dataset.id === id);
  if (!line) {
    line = make("li", who);
    line.dataset.id = id;
    line.append(make("span", "who", who), make("span", "words"));
    list.append(line);
  }
  const said = line.lastElementChild;
  said.textContent = words;
  if (name) said.prepend(make("b", "", name), " ");
  by("empty").hidden = true;
  if (atEnd) toEnd();
}

// What was said last stays in sight, also when a question takes some of the room, until somebody scrolls up.
let atEnd = true;
const toEnd = () => (by("log").scrollTop = by("log").scrollHeight);
by("log").onscroll = () => {
  const log = by("log");
  atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 60;
};
new ResizeObserver(() => atEnd && toEnd()).observe(by("log"));

function make(tag, kind, text = "") {
  const made = document.createElement(tag);
  if (kind) made.className = kind;
  made.textContent = text;
  return made;
}

// What waits for a decision: one at a time, and it stays until somebody put it away.

function show(request) {
  shown = request;
  by("ask").hidden = request === null;
  if (request === null) return;
  by("question").textContent = `${request.agent} asks: may this run?`;
  by("tool").textContent = request.tool;
  by("shown").replaceChildren(...request.blocks.map(block));
  by("there").href = `inbox/requests/${encodeURIComponent(request.request)}`;
  by("decide").reset();
  by("decide").hidden = false;
  by("outcome").hidden = by("put-away").hidden = true;
  locked(false);
  count();
  // Who is writing is not pulled away, so that no key meant for the text decides anything.
  if (document.activeElement !== by("text")) by("ask").focus({ preventScroll: true });
}

function block(lines) {
  const made = make("div", "block");
  for (const { lead, text } of lines) {
    if (lead) made.append(make("span", "lead", text ? `${lead}: ` : lead));
    if (text || !lead) made.append(make("bdi", "data", text));
  }
  return made;
}

function count() {
  const others = waiting.size - (shown && waiting.has(shown.request) ? 1 : 0);
  by("count").textContent = others > 0 ? `${others} more after this` : "";
}

function locked(yes) {
  for (const button of by("decide").querySelectorAll("button")) button.disabled = yes;
}

function decide(type) {
  if (shown === null || !waiting.has(shown.request)) return;
  const { request, digest } = shown;
  const always = by("always").checked;
  const words = type === "reject" ? { words: by("why").value } : {};
  if (tell({ type, request, digest, always, ...words })) locked(true); // the effect is told when it is recorded
}

function outcome(words) {
  by("outcome").textContent = words;
  const { activeElement } = document; // the body has the focus where the button that was pressed is locked
  const focused = activeElement === document.body || by("decide").contains(activeElement);
  by("decide").hidden = true;
  by("outcome").hidden = by("put-away").hidden = false;
  if (focused) by("put-away").focus();
}

function putAway() {
  const [next = null] = waiting.values();
  show(next);
  if (next === null) by("text").focus();
}

// What somebody presses.

by("approve").onclick = () => decide("approve");
by("reject").onclick = () => decide("reject");
by("decide").onsubmit = (event) => event.preventDefault(); // Enter in the field decides nothing
by("put-away").onclick = putAway;
by("interrupt").onclick = () => {
  sound.hush();
  tell({ type: "interrupt" });
};
by("say").onsubmit = (event) => {
  event.preventDefault();
  sound.wake();
  const text = by("text").value.trim();
  if (text && tell({ type: "say", text })) by("text").value = "";
};
const hear = (pcm) => socket?.readyState === WebSocket.OPEN && socket.send(pcm);
by("microphone").onclick = async () => {
  const button = by("microphone");
  try {
    if (sound.listens) {
      sound.mute();
      hear(new ArrayBuffer(2 * 24 * 800)); // silence, by which the model knows that the sentence has ended
    } else await sound.listen(hear);
    told("");
  } catch (error) {
    sound.mute();
    told(`The microphone cannot be had (${error.name}). You can write instead.`);
  }
  button.setAttribute("aria-pressed", String(sound.listens));
  button.textContent = sound.listens ? "Microphone off" : "Microphone on";
};

connect();
