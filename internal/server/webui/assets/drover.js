// The one script of the console. It keeps the regions of a page up to date, shows times in the zone of the browser, and
// signs in by a link. Without it lists are read and forms act as well.

import { hints } from "./live.js";
import { morph } from "./morph.js";

const pause = 500; // milliseconds between two looks, at least
const share = 20; // and at least so many times as long as the last answer took
const rest = 30000; // but no longer: a server that was slow once may be fast again
const spread = 300; // the longest wait after a hint, so that not all pages look at once
const settle = 2000; // after the last hint, one more look: counts may be so much older than the hint
const slow = 10000; // a look without a hint, because a hint can be lost
const patience = 4000; // how long the server may be silent before the band says so
const steady = 2000; // milliseconds after the last movement of the pointer in which no row moves under it
const signedOut = 401, tooMany = 429; // statuses of HTTP
const same = (text) => text;
const rules = { createHTML: same, createScriptURL: same };
const trusted = window.trustedTypes ? trustedTypes.createPolicy("drover", rules) : rules;

// Markup comes from the console's own templates only. It is parsed into a document of its own, where nothing runs.
const parse = (text) => new DOMParser().parseFromString(trusted.createHTML(text), "text/html");

const lang = document.documentElement.lang;
const clock = { hour: "numeric", minute: "2-digit", second: "2-digit" };
const thisYear = new Intl.DateTimeFormat(lang, { month: "short", day: "numeric", ...clock });
const anyYear = new Intl.DateTimeFormat(lang, { year: "numeric", month: "short", day: "numeric", ...clock });
const ages = new Intl.RelativeTimeFormat(lang, { style: "short" });
const recent = 3600000; // milliseconds: nearer times are told as ages
const aging = 10000; // how often ages are told anew, and how far the clocks may be apart
const ahead = Date.parse(document.body.dataset.now) - Date.now(); // of the server's clock, by which ages count

const stamp = (at) => (at.getFullYear() === new Date().getFullYear() ? thisYear : anyYear).format(at);

function age(at) {
  const past = Date.now() + ahead - at;
  if (Math.abs(past) >= recent) return stamp(at);
  if (past < -aging) return ages.format(Math.ceil(-past / 60000), "minute");
  if (past < aging) return document.body.dataset.ago;
  return past < 60000 ? ages.format(-Math.floor(past / aging) * aging / 1000, "second")
    : ages.format(-Math.floor(past / 60000), "minute");
}

const written = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z/; // as agents and servers write times in their sentences
const verbatim = "time, pre, code, .evidence, textarea, [data-verbatim]"; // what stays as a program has written it

// findTimes makes the times in sentences elements of their own, so that they are shown as all times are.
function findTimes(root) {
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  const found = [];
  while (walker.nextNode()) {
    if (written.test(walker.currentNode.data) && !walker.currentNode.parentElement.closest(verbatim)) found.push(walker.currentNode);
  }
  for (let text of found) {
    for (let match = written.exec(text.data); match; match = written.exec(text.data)) {
      const rest = text.splitText(match.index);
      text = rest.splitText(match[0].length);
      const element = document.createElement("time");
      element.dateTime = element.textContent = match[0];
      element.dataset.exact = "";
      rest.replaceWith(element);
    }
  }
}

function showTimes(root) {
  for (const element of root.querySelectorAll("time")) {
    const at = new Date(element.dateTime);
    element.title ||= `${stamp(at)} · ${element.textContent}`;
    const text = "exact" in element.dataset ? stamp(at) : age(at);
    if (element.textContent !== text) element.textContent = text;
  }
}

// label gives each cell the head of its column: a narrow window shows it before the cell.
function label(root) {
  for (const table of root.querySelectorAll("table")) {
    const heads = [...table.querySelectorAll("thead th")].map((head) => head.textContent);
    for (const cell of table.querySelectorAll("tbody td")) {
      cell.dataset.label = heads[cell.cellIndex] ?? "";
      cell.toggleAttribute("data-none", ["", "–"].includes(cell.textContent.trim()) && !cell.querySelector("input"));
    }
  }
}

// dress does with a page, or a region of it, what only a browser can.
function dress(root) {
  findTimes(root);
  showTimes(root);
  label(root);
}

// scrollable lets keys reach what scrolls sideways, which they then can scroll.
function scrollable() {
  for (const element of document.querySelectorAll("main section, main .wide")) {
    if (element.scrollWidth > element.clientWidth) element.tabIndex = 0;
    else element.removeAttribute("tabindex");
  }
}

let lostAt = null;

function lost(is) {
  const band = document.getElementById("lost");
  if (is === (lostAt !== null)) return;
  lostAt = is ? new Date() : null;
  document.body.classList.toggle("lost", is);
  band.hidden = !is;
  band.textContent = is ? document.body.dataset.lost.replace("{time}", stamp(lostAt)) : "";
}

// busy reports whether a person selects text in a region, which then stays as it is.
const busy = (region) => !getSelection().isCollapsed && region.contains(getSelection().anchorNode);

let stirred = -Infinity, pointer = ""; // when the pointer moved last, and where it was

// stirs tells that the pointer has moved, or that a button of it is down.
function stirs({ type, clientX, clientY }) {
  const at = `${clientX} ${clientY}`;
  if (type === "pointermove" && at === pointer) return; // a browser tells so, too, when the page moves below the pointer
  pointer = at;
  stirred = performance.now();
}

const keysOf = (root) => new Map([...root.querySelectorAll("[data-key]")].map((row) => [row.dataset.key, row]));

// standStill updates the rows of a region, but neither adds, removes nor moves one, so that nobody clicks on another row
// than they see. It returns how many rows it leaves as they are; 0 if a region has the same rows as before, which are
// then to be updated in full.
function standStill(region, next) {
  const now = keysOf(region), then = keysOf(next);
  const come = [...then.keys()].filter((key) => !now.has(key)).length;
  const gone = [...now.keys()].filter((key) => !then.has(key)).length;
  const order = [...now.keys()];
  const moved = come + gone || [...then.keys()].filter((key, i) => key !== order[i]).length;
  if (moved > 0) for (const [key, row] of now) if (then.has(key)) morph(row, then.get(key));
  return moved;
}

let versions = {}; // of the topics, as the server has told last
let looking = false, due = Infinity, settling = 0, took = 0, looked = performance.now();

const topics = () => new Set([...document.querySelectorAll("[data-topics]")].flatMap((e) => e.dataset.topics.split(" ")));

// end puts the answer of the server in the place of a page that it does not give any more: what the page shows is gone,
// or the person may not see it any more. It has no buttons, and no look follows.
function end(page) {
  const told = document.createElement("section");
  told.setAttribute("role", "alert");
  told.append(...page.getElementById("main").children);
  document.getElementById("main").replaceChildren(told);
  document.title = page.title;
  dress(told);
}

async function look() {
  const regions = document.querySelectorAll("[data-region]");
  if (document.hidden || regions.length === 0) return;
  let page, outside, refused;
  try {
    const answer = await fetch(location.href, {
      headers: { "X-Drover-Renews": "1" }, redirect: "manual", signal: AbortSignal.timeout(10000),
    });
    if (answer.status >= 500 || answer.status === tooMany) throw new Error(answer.status);
    outside = answer.type === "opaqueredirect" || answer.status === signedOut;
    page = parse(await answer.text());
    refused = !answer.ok && !page.querySelector("[data-region]"); // a page whose filter is wrong has its regions
  } catch {
    lost(true);
    return;
  }
  lost(false);
  if (outside || page.getElementById("login")) {
    location.reload();
    return;
  }
  if (refused) {
    end(page);
    return;
  }
  const still = performance.now() - stirred < steady;
  let waiting = 0;
  for (const region of regions) {
    const next = page.querySelector(`[data-region="${region.dataset.region}"]`);
    if (!next || busy(region)) continue;
    dress(next);
    if (region.isEqualNode(next)) continue;
    const held = still ? standStill(region, next) : 0;
    waiting += held;
    if (held > 0) continue;
    const form = region.closest("form");
    if (form) leaveOut(form); // also rows that the look takes away
    const known = new Set(boxes(region));
    morph(region, next);
    if (form) choose(form, boxes(region).filter((box) => !known.has(box)));
  }
  const button = document.getElementById("moved");
  button.hidden = waiting === 0;
  button.textContent = button.dataset.moved.replace("{n}", waiting);
  if (waiting > 0) plan(stirred + steady - performance.now());
  scrollable();
}

// plan has a look happen in some milliseconds, or earlier if one is planned, but never too soon after the last one.
function plan(wait) {
  const now = performance.now();
  due = Math.min(due, Math.max(now + wait, looked + Math.max(pause, Math.min(share * took, rest))));
}

async function tick() {
  const now = performance.now();
  if (settling && now > settling) {
    settling = 0;
    plan(0);
  }
  if (now - looked > slow) plan(0);
  if (looking || now < due || document.hidden) return;
  looking = true;
  due = Infinity;
  await look();
  took = performance.now() - now;
  looked = performance.now();
  looking = false;
}

let silent = 0; // the timer of the patience

// hinted takes what the server tells about changes.
function hinted(told) {
  if (told.lost) {
    if (told.over) due = 0; // however slow the last answer was: nobody may see the data any more
    silent ||= setTimeout(() => plan(0), patience); // the look finds out whether the server answers
    return;
  }
  clearTimeout(silent);
  silent = 0;
  const first = Object.keys(versions).length === 0;
  const mine = topics();
  const changed = Object.entries(told.versions).some(([topic, v]) => versions[topic] !== v && mine.has(topic));
  versions = { ...versions, ...told.versions };
  if (lostAt !== null) plan(0);
  else if (changed) {
    if (!first) plan(Math.random() * spread); // the page is as new as the first versions
    settling = performance.now() + settle;
  }
}

const boxes = (root) => [...root.querySelectorAll("input[name=target]")];
const exceptions = (form) => [...form.querySelectorAll("input[name=except]")];

// leaveOut says which rows are not chosen, if all that match the filter are: those of the page, and those that have left
// the page since.
function leaveOut(form) {
  const all = form.elements.all?.checked;
  const rows = boxes(form);
  const here = new Set(rows.map((box) => box.value));
  for (const old of exceptions(form)) if (!all || here.has(old.value)) old.remove();
  if (!all) return;
  for (const { value } of rows.filter((box) => !box.checked)) {
    const hidden = document.createElement("input");
    Object.assign(hidden, { type: "hidden", name: "except", value });
    form.append(hidden);
  }
}

// choose marks rows that have come, if all that match the filter are chosen, and nobody has left these rows out.
function choose(form, come) {
  if (!form.elements.all?.checked) return;
  const left = new Set(exceptions(form).map((e) => e.value));
  for (const box of come) box.checked = !left.has(box.value);
}

document.addEventListener("change", ({ target }) => {
  if (target.name !== "all" || !target.form) return;
  for (const old of exceptions(target.form)) old.remove();
  for (const box of boxes(target.form)) box.checked = target.checked;
});
document.addEventListener("submit", ({ target }) => leaveOut(target));
document.addEventListener("input", ({ target }) => { // who writes how large batches are wants batches
  const spread = target.closest(".spread .fields")?.closest(".spread");
  if (spread) spread.querySelector("[value=batches]").checked = true;
});

// A form that was refused is at the address that it was sent to: its page has another one.
const { here } = document.body.dataset;
if (here) history.replaceState(null, "", here);

async function signIn() {
  const form = document.getElementById("login");
  const code = location.hash.slice(1);
  if (form && location.href.endsWith("/ui/apply")) sessionStorage.removeItem("drover-sent"); // it asks instead of applying
  if (!form || !code) return;
  history.replaceState(null, "", location.pathname);
  const answer = await fetch("/ui/login/who", { method: "POST", body: new URLSearchParams({ code }) });
  const text = await answer.text();
  const how = document.getElementById("how");
  if (!answer.ok) {
    how.textContent = text;
    return;
  }
  how.textContent = form.dataset.as.replace("{user}", text);
  form.elements.code.value = code;
  form.elements.code.closest("p").hidden = true;
  form.querySelector("button").focus();
}

const root = document.documentElement;
if (localStorage.theme) root.dataset.theme = localStorage.theme;
document.getElementById("theme")?.addEventListener("click", () => {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = localStorage.theme = (root.dataset.theme ?? (dark ? "dark" : "light")) === "dark" ? "light" : "dark";
});
dress(document);
setInterval(() => getSelection().isCollapsed && showTimes(document), aging);
scrollable();
addEventListener("resize", scrollable);
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
const parts = new Intl.DateTimeFormat("en", { timeZoneName: "longOffset" }).formatToParts();
const offset = parts.find(({ type }) => type === "timeZoneName").value.replace("GMT", "UTC");
document.getElementById("zone").textContent =
  document.body.dataset.zone.replace("{zone}", zone === "UTC" ? zone : `${zone} (${offset})`);
signIn();
addEventListener("hashchange", signIn); // a link that is pasted into the sign-in page

if (document.querySelector("[data-region]")) {
  for (const type of ["pointermove", "pointerdown"]) {
    document.getElementById("main").addEventListener(type, stirs, { passive: true });
  }
  document.getElementById("moved").addEventListener("click", () => {
    stirred = -Infinity;
    due = 0; // a person waits, so the pauses between looks do not count
  });
  hints(hinted, trusted.createScriptURL(new URL("./live.js", import.meta.url).href));
  document.addEventListener("visibilitychange", () => document.hidden || plan(0));
  setInterval(tick, 100);
}
