// The log of a process as it is written, or events as they arrive. The page keeps the last lines only. It stays where
// it is while a person reads further up or selects text, and then says how many lines have come.

const most = 5000; // lines that the page holds
const mostText = 4e6; // and characters
const longest = 10000; // characters of a line
const chunk = 500; // lines of a text node, which goes as a whole
const pause = 100; // milliseconds between two drawings
const retry = 3000; // before another attempt
const silence = 40000; // after so long without a byte the stream counts as lost

const pane = document.getElementById("log-lines");
const button = document.getElementById("log-held");
const problem = document.getElementById("log-problem");

const fold = Number(pane.dataset.fold ?? 0); // milliseconds within which equal lines are one; 0 for none

const shown = []; // the text nodes of the pane, with their numbers of lines and characters
let fresh = [], freshText = 0; // lines that the pane does not have yet
const recent = new Map(); // the latest line with each text, if equal lines are one
const grown = new Set(); // lines whose number has grown since the pane was drawn
let came = 0; // how many lines have come since the pane was drawn
let anew = true; // the next drawing replaces all
let top = 0; // where the last drawing has left the pane

// visible makes control characters visible, so that a line can neither reorder nor hide what stands beside it.
const visible = (text) => text
  .replace(/[\u0000-\u0008\u000b-\u001f]/g, (c) => String.fromCharCode(0x2400 + c.charCodeAt(0)))
  .replace(/\u007f/g, "\u2421").replace(/[\u0080-\u009f\u2028\u2029\p{Cf}]/gu, "\ufffd");

function complain(text) {
  problem.textContent = text;
  problem.hidden = text === "";
}

function take(line) {
  if (line.error) {
    complain(place(line) + visible(line.error));
    return;
  }
  if (!problem.hidden) complain("");
  came++;
  if (fold > 0 && again(line)) return;
  fresh.push({ line, n: 1 });
  freshText += size(fresh.at(-1));
  if (fold > 0) remember(fresh.at(-1));
  if (fresh.length > 2 * most || freshText > 2 * mostText) keepLast();
}

// again counts a line with an equal one before it, and reports whether it did.
function again(line) {
  const same = recent.get(line.text);
  if (!same || !(Math.abs(Date.parse(line.at) - Date.parse(same.line.at)) < fold)) return false;
  same.n++;
  grown.add(same);
  return true;
}

function remember(one) {
  if (recent.size > most) recent.clear();
  recent.set(one.line.text, one);
}

// size is about how many characters of the page a line takes.
const size = (one) => Math.min(one.line.text?.length ?? 0, longest) + 30;

// place is what stands before a line: its host, and its copy of the process, if there may be several.
function place({ host, name }) {
  if (!("several" in pane.dataset) || !host) return "";
  return visible(name?.includes("@") ? `${host} ${name}` : host) + "  ";
}

// whole is a line as the pane shows it. It takes time, so only lines that are shown get it.
function whole({ line, n }) {
  let text = line.lost ? pane.dataset.gap.replace("{n}", line.lost) : visible(line.text ?? "");
  text = place(line) + text;
  if (line.at) text = new Date(line.at).toLocaleString("sv") + "  " + text; // in Swedish a time is that of ISO 8601
  if (text.length > longest) text = text.slice(0, longest) + " …";
  return n > 1 ? `${text}  ×${n}` : text;
}

// forget ends that lines count with equal ones before them, because these may not be shown.
function forget() {
  recent.clear();
  grown.clear();
}

// keepLast drops the lines that the pane would not hold anyway.
function keepLast() {
  fresh = fresh.slice(-most);
  freshText = fresh.reduce((sum, one) => sum + size(one), 0);
  while (freshText > mostText && fresh.length > 1) freshText -= size(fresh.shift());
  forget();
  anew = true;
}

// follows reports whether the end of the pane is in sight, or nobody has scrolled up since the last drawing. It looks
// itself: the event of a scroll may come after the next drawing.
const follows = () => pane.scrollTop >= top || pane.scrollTop + pane.clientHeight > pane.scrollHeight - 8;

const selects = () => !getSelection().isCollapsed && pane.contains(getSelection().anchorNode);

function draw() {
  if (came === 0) return;
  if (!follows() || selects()) {
    button.textContent = anew ? pane.dataset.newer : pane.dataset.new.replace("{n}", came);
    button.hidden = false;
    return;
  }
  if (fresh.length > most || freshText > mostText) keepLast();
  if (anew) {
    pane.replaceChildren();
    shown.length = 0;
  }
  const each = fold > 0 ? 1 : chunk; // a line that grows has a node of its own
  for (let i = 0; i < fresh.length; i += each) {
    const lines = fresh.slice(i, i + each);
    const node = document.createTextNode(lines.map(whole).join("\n") + "\n");
    if (fold > 0) lines[0].node = node;
    shown.push({ node, lines: lines.length, text: node.length });
    pane.append(node);
  }
  for (const line of grown) line.node.data = whole(line) + "\n";
  grown.clear();
  let lines = 0, text = 0;
  for (const one of shown) {
    lines += one.lines;
    text += one.text;
  }
  while (shown.length > 1 && (lines - shown[0].lines >= most || text > mostText)) {
    const { node, lines: n, text: size } = shown.shift();
    node.remove();
    lines -= n;
    text -= size;
  }
  fresh = [];
  freshText = came = 0;
  anew = false;
  button.hidden = true;
  toEnd();
}

function toEnd() {
  pane.scrollTop = pane.scrollHeight;
  top = pane.scrollTop;
}

button.addEventListener("click", () => {
  getSelection().removeAllRanges();
  toEnd();
  draw();
  pane.focus();
});

let stop = null; // ends the stream

// read reads the stream to its end, and reports whether another attempt makes sense.
async function read(end) {
  let timer = 0;
  const alive = () => {
    clearTimeout(timer);
    timer = setTimeout(() => end.abort(), silence);
  };
  try {
    alive();
    const answer = await fetch(pane.dataset.follow, {
      headers: { "X-Drover-Renews": "1" }, redirect: "manual", signal: end.signal,
    });
    const kind = answer.headers.get("Content-Type") ?? "";
    if (kind.includes("problem")) {
      complain((await answer.json()).detail ?? pane.dataset.lost);
      return answer.status === 429 || answer.status >= 500;
    }
    if (!kind.includes("ndjson")) {
      location.reload(); // it is the sign-in
      return false;
    }
    fresh = [];
    freshText = came = 0;
    forget();
    anew = true;
    complain("");
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      alive();
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      for (const line of lines) if (line !== "") take(JSON.parse(line));
    }
  } catch { // the server has gone, or is silent
  } finally {
    clearTimeout(timer);
  }
  if (!document.hidden) complain(pane.dataset.lost);
  return true;
}

let following = false;

// follow reads the log while the page is visible: a hidden page would take a connection from the visible ones.
async function follow() {
  if (following) return;
  following = true;
  for (let again = true; again && !document.hidden;) {
    stop = new AbortController();
    again = await read(stop);
    await new Promise((done) => { setTimeout(done, retry); });
  }
  following = false;
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) stop?.abort();
  else follow();
});
setInterval(draw, pause);
toEnd();
follow();
