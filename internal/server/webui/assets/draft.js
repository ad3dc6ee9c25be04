// The page that applies a process file: it keeps the unsaved text of this tab over a new sign-in, takes a dropped file,
// and leads from a fault to its line.

const form = document.getElementById("draft");
const text = document.getElementById("text");
const key = `drover-draft:${form.dataset.user}:${form.elements.ns.value}`; // a tab may have several users in turn
const { tag, revision } = form.elements; // the state of the namespace that the text was made for

function keep() {
  try {
    const draft = { text: text.value, tag: tag.value, revision: revision.value };
    sessionStorage.setItem(key, JSON.stringify(draft));
    sessionStorage.removeItem("drover-sent");
  } catch {
    // a browser without room keeps the text in the page only
  }
}

function fill(draft) {
  text.value = draft.text;
  tag.value = draft.tag;
  revision.value = draft.revision;
}

function restore() {
  let draft = null;
  try {
    draft = JSON.parse(sessionStorage.getItem(key));
  } catch {
    sessionStorage.removeItem(key);
  }
  if (!draft || draft.text === text.value) return;
  if (sessionStorage.getItem("drover-sent") === key && Number(revision.value) > Number(draft.revision)) {
    sessionStorage.removeItem(key); // it has been applied
    return;
  }
  const stored = { text: text.value, tag: tag.value, revision: revision.value };
  fill(draft); // with its old tag, so that the server sees what somebody else has changed since
  const note = document.getElementById("restored");
  note.hidden = false;
  document.getElementById("discard").addEventListener("click", () => {
    sessionStorage.removeItem(key);
    fill(stored);
    note.hidden = true;
    text.focus();
  });
}

async function take(file) {
  if (!file) return;
  text.value = await file.text();
  keep();
  text.focus();
}

// show selects a line of the text and scrolls to it.
function show(line) {
  const lines = text.value.split("\n");
  const start = lines.slice(0, line - 1).reduce((n, l) => n + l.length + 1, 0);
  text.focus();
  text.setSelectionRange(start, start + (lines[line - 1] ?? "").length);
  text.scrollTop = (line - 4) * parseFloat(getComputedStyle(text).lineHeight);
}

const confirmation = document.getElementById("confirm");
if (document.getElementById("plan") || document.querySelector(".failed, .warned, .problem")) keep();
else restore();
text.addEventListener("input", keep);
text.addEventListener("dragover", (event) => event.preventDefault());
text.addEventListener("drop", (event) => {
  if (event.dataTransfer.files.length === 0) return;
  event.preventDefault();
  take(event.dataTransfer.files[0]);
});
document.getElementById("file").addEventListener("change", (event) => take(event.target.files[0]));
for (const link of document.querySelectorAll("[data-line]")) {
  link.addEventListener("click", (event) => {
    event.preventDefault();
    show(Number(link.dataset.line));
  });
}
document.getElementById("edit")?.addEventListener("click", (event) => {
  event.preventDefault();
  document.getElementById("plan").hidden = true;
  form.hidden = false;
  text.focus();
});
confirmation?.addEventListener("submit", () => sessionStorage.setItem("drover-sent", key));
