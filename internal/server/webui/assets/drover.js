// The one script of the console. It keeps the regions of a page up to date, shows times in the zone of the browser, and
// signs in by a link. Without it lists are read and forms act as well.

const pause = 3000; // milliseconds between two looks, at least
const share = 20; // and at least so many times as long as the last answer took
const trusted = window.trustedTypes
  ? trustedTypes.createPolicy("drover", { createHTML: (text) => text })
  : { createHTML: (text) => text };

// Markup comes from the console's own templates only. It is parsed into a document of its own, where nothing runs.
const parse = (text) => new DOMParser().parseFromString(trusted.createHTML(text), "text/html");

const stamp = new Intl.DateTimeFormat(document.documentElement.lang, { dateStyle: "short", timeStyle: "medium" });

function showTimes(root) {
  for (const element of root.querySelectorAll("time")) {
    if (!element.title) {
      element.title = element.textContent;
      element.textContent = stamp.format(new Date(element.dateTime));
    }
  }
}

let lostAt = null;

function lost(is) {
  const band = document.getElementById("lost");
  if (is === (lostAt !== null)) return;
  lostAt = is ? new Date() : null;
  document.body.classList.toggle("lost", is);
  band.hidden = !is;
  band.textContent = is ? document.body.dataset.lost.replace("{time}", stamp.format(lostAt)) : "";
}

// busy reports whether a person works in a region, which then stays as it is.
const busy = (region) =>
  region.querySelector("input:checked") !== null || region.contains(document.activeElement) ||
  !getSelection().isCollapsed && region.contains(getSelection().anchorNode);

async function look() {
  const regions = document.querySelectorAll("[data-region]");
  if (document.hidden || regions.length === 0) return;
  let page;
  try {
    const answer = await fetch(location.href, {
      headers: { "X-Drover-Renews": "1" }, redirect: "manual", signal: AbortSignal.timeout(10000),
    });
    if (!answer.ok) throw new Error(answer.status);
    page = parse(await answer.text());
  } catch {
    lost(true);
    return;
  }
  lost(false);
  if (page.getElementById("login")) {
    location.reload();
    return;
  }
  for (const region of regions) {
    const next = page.querySelector(`[data-region="${region.dataset.region}"]`);
    if (!next || busy(region)) continue;
    showTimes(next);
    if (!region.isEqualNode(next)) {
      const pre = region.querySelector("pre"), top = pre?.scrollTop;
      region.replaceChildren(...next.childNodes);
      if (pre && region.querySelector("pre")) region.querySelector("pre").scrollTop = top;
    }
  }
}

async function signIn() {
  const form = document.getElementById("login");
  const code = location.hash.slice(1);
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
showTimes(document);
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
document.getElementById("zone").textContent = document.body.dataset.zone.replace("{zone}", zone);
signIn();

async function renew() {
  const began = performance.now();
  await look();
  setTimeout(renew, Math.max(pause, share * (performance.now() - began)));
}
setTimeout(renew, pause);
