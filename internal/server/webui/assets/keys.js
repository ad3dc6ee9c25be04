// Keys and the palette of the console. No key alone acts on a process: keys lead to pages, rows and buttons. A switch in
// the list of keys turns them off.

const root = document.documentElement;
root.classList.add("js");

const palette = document.getElementById("palette");
const help = document.getElementById("keys");
const input = document.getElementById("place");
const list = document.getElementById("places");
const pages = { o: "/ui/", p: "/ui/processes", h: "/ui/hosts", t: "/ui/tasks", r: "/ui/rollouts", e: "/ui/events", a: "/ui/apply" };

const off = () => localStorage.keys === "off";

// say tells a short text to people who see it and to those who hear it.
function say(text) {
  const element = document.getElementById("copied");
  element.textContent = text;
  setTimeout(() => { if (element.textContent === text) element.textContent = ""; }, 2000);
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch { // no clipboard over http, or no permission
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  say(document.getElementById("keys-close")?.dataset.copied ?? "");
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-copy]");
  if (button) copy(document.getElementById(button.dataset.copy).textContent.trim());
  const link = event.target.closest("[data-copy-from]");
  if (link && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    fetch(link.href).then(async (answer) => answer.ok ? copy((await answer.text()).trim()) : location.assign(link.href));
  }
  const menu = document.querySelector("details.person[open]");
  if (menu && !menu.contains(event.target)) menu.open = false;
});

// ---- the palette

let places = [], chosen = 0, asked = 0, timer = 0;

const ownPages = () => [...document.querySelectorAll("header nav a, .menu a")].map((a) => ({ kind: "", text: a.textContent.trim(), url: a.href }));

function draw() {
  list.replaceChildren(...places.map((place, i) => {
    const row = document.createElement("li");
    row.id = `place-${i}`;
    row.setAttribute("role", "option");
    row.setAttribute("aria-selected", String(i === chosen));
    const kind = document.createElement("span");
    kind.className = "soft";
    kind.textContent = list.dataset[place.kind] ?? "";
    const text = document.createElement("bdi");
    text.textContent = place.text;
    row.append(text, kind);
    row.addEventListener("click", () => { location.href = place.url; });
    return row;
  }));
  if (places.length === 0) {
    const none = document.createElement("li");
    none.className = "soft";
    none.setAttribute("role", "option");
    none.setAttribute("aria-disabled", "true");
    none.textContent = list.dataset.none;
    list.append(none);
  }
  if (places.length > 0) input.setAttribute("aria-activedescendant", `place-${chosen}`);
  else input.removeAttribute("aria-activedescendant");
  list.children[chosen]?.scrollIntoView({ block: "nearest" });
}

async function search() {
  const text = input.value.trim();
  const number = ++asked;
  const pages = ownPages().filter((p) => p.text.toLowerCase().includes(text.toLowerCase()));
  let found = [];
  if (text !== "") {
    try {
      const answer = await fetch("/ui/jump?q=" + encodeURIComponent(text));
      if (answer.ok && answer.headers.get("Content-Type") === "application/json") found = await answer.json();
    } catch { // the server does not answer: the pages are there all the same
    }
  }
  if (number !== asked) return; // a later text has been typed
  places = [...pages, ...found];
  chosen = 0;
  draw();
}

function jump() {
  if (palette.open) return;
  help.close();
  input.value = "";
  palette.showModal();
  search();
}

input?.addEventListener("input", () => {
  clearTimeout(timer);
  timer = setTimeout(search, 120);
});
input?.addEventListener("keydown", (event) => {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step && places.length > 0) {
    event.preventDefault();
    chosen = (chosen + step + places.length) % places.length;
    draw();
  } else if (event.key === "Enter") {
    event.preventDefault();
    if (places[chosen]) location.href = places[chosen].url;
  }
});
document.getElementById("jump")?.addEventListener("click", jump);
document.getElementById("help")?.addEventListener("click", () => help.showModal());
const on = document.getElementById("keys-on");
if (on) {
  on.checked = !off();
  on.addEventListener("change", () => { localStorage.keys = on.checked ? "on" : "off"; });
}

// ---- rows

const rows = () => [...document.querySelectorAll("main tbody tr")].filter((row) => row.offsetParent !== null);
const current = () => document.activeElement?.closest("main tbody tr");
let marked = null;

function move(step) {
  const all = rows();
  if (all.length === 0) return;
  const at = all.indexOf(current());
  const next = all[at < 0 ? (step > 0 ? 0 : all.length - 1) : Math.min(Math.max(at + step, 0), all.length - 1)];
  const target = next.querySelector("a") ?? next.querySelector("input, button") ?? next;
  if (target === next) next.tabIndex = -1;
  target.focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
}

const box = (row) => row?.querySelector("input[type=checkbox]");

function check(input, value) {
  if (!input || input.checked === value) return;
  input.checked = value;
  input.dispatchEvent(new Event("change", { bubbles: true }));
}

function mark(range) {
  const row = current();
  const own = box(row);
  if (!own) return;
  const all = rows();
  if (range && marked && all.includes(marked)) {
    const [from, to] = [all.indexOf(marked), all.indexOf(row)].sort((a, b) => a - b);
    for (const one of all.slice(from, to + 1)) check(box(one), true);
  } else {
    check(own, !own.checked);
  }
  marked = row;
}

function logs() {
  const row = current();
  const link = [...(row?.querySelectorAll("a") ?? [])].find((a) => a.pathname.includes("/at/"));
  const section = document.getElementById("log");
  if (link) location.href = link.href + "#log";
  else section?.scrollIntoView();
}

// ---- keys

const patience = 1500; // milliseconds between g and the key after it
let g = -Infinity; // when g was pressed, by the clock of the events: a busy page takes none of the patience

const actions = {
  "?": () => help.showModal(),
  ":": jump,
  "/": () => document.querySelector("form.filter input:not([type=hidden])")?.focus(),
  j: () => move(1),
  k: () => move(-1),
  Enter: () => {
    const link = current()?.querySelector("a");
    if (link) location.href = link.href;
  },
  x: () => mark(false),
  X: () => mark(true),
  a: () => document.querySelector("main .acts button:not([disabled])")?.focus(),
  l: logs,
  y: () => copy(location.href),
  c: () => {
    const command = document.getElementById("command");
    if (command) copy(command.textContent.trim());
  },
  Escape: () => {
    document.activeElement?.blur();
  },
};

const writes = (element) => element.closest?.("input:not([type=checkbox]):not([type=radio]), textarea, select, [contenteditable]");

document.addEventListener("keydown", (event) => {
  if (!palette || event.defaultPrevented || event.isComposing) return;
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k" && !off()) {
    event.preventDefault();
    jump();
    return;
  }
  if (off() || event.ctrlKey || event.metaKey || event.altKey || palette.open || help.open) return;
  if (writes(event.target)) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (event.key === "Enter" && event.target.closest("a, button, summary")) return; // it has its own meaning
  if (event.timeStamp - g < patience) {
    g = -Infinity;
    if (pages[event.key]) {
      event.preventDefault();
      location.href = pages[event.key];
    }
    return;
  }
  if (event.key === "g") {
    g = event.timeStamp;
    return;
  }
  const action = actions[event.key];
  if (!action) return;
  event.preventDefault();
  action();
});
