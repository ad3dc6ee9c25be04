// morph makes an element equal to another one, and keeps every node that both have. So the focus, checked boxes and the
// scroll stay. Rows with the same data-key are the same row, wherever they are.

// own are attributes that a person changes.
const own = new Set(["open"]);

export function morph(from, to) {
  for (const { name } of [...from.attributes]) {
    if (!to.hasAttribute(name) && !own.has(name)) from.removeAttribute(name);
  }
  for (const { name, value } of to.attributes) {
    if (from.getAttribute(name) !== value && !own.has(name)) from.setAttribute(name, value);
  }
  const keyed = new Map();
  for (const child of from.children) if (child.dataset.key) keyed.set(child.dataset.key, child);
  let at = from.firstChild;
  for (const next of [...to.childNodes]) {
    const key = next.dataset?.key;
    let same = key ? keyed.get(key) : at;
    if (!key && at?.dataset?.key) same = null; // a row is never another thing
    if (!same || same.nodeType !== next.nodeType || same.nodeName !== next.nodeName) {
      from.insertBefore(document.importNode(next, true), at);
      continue;
    }
    if (same === at) at = at.nextSibling;
    else from.insertBefore(same, at);
    if (next.nodeType === Node.ELEMENT_NODE) morph(same, next);
    else if (same.nodeValue !== next.nodeValue) same.nodeValue = next.nodeValue;
  }
  while (at) {
    const rest = at.nextSibling;
    at.remove();
    at = rest;
  }
}
