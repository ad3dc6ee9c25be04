// Hints of the server that something has changed. As a shared worker this holds one stream for all tabs of a browser; in
// a browser without shared workers each visible tab has its own stream.

const silence = 15000; // milliseconds without a message after which the stream counts as lost
const retry = 3000; // before a stream that the server has refused is opened again
const alive = 10000; // how often a visible tab says that it is there
const gone = 25000; // after that a silent tab counts as closed

// listen opens the stream. tell gets {versions} after each message, and {lost: true} when there is no stream; with
// over: true if the server has ended it, because the person may not be here any more. The result has close.
function listen(tell) {
  let source, timer, again, closed = false;
  const quiet = () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      tell({ lost: true });
      source.close();
      open();
    }, silence);
  };
  function open() {
    if (closed) return;
    source = new EventSource("/ui/live");
    quiet();
    source.onmessage = (message) => {
      quiet();
      tell({ versions: JSON.parse(message.data) });
    };
    source.addEventListener("over", () => tell({ lost: true, over: true }));
    source.onerror = () => {
      tell({ lost: true });
      source.close();
      clearTimeout(timer);
      clearTimeout(again);
      again = setTimeout(open, retry);
    };
  }
  open();
  return {
    close() {
      closed = true;
      source.close();
      clearTimeout(timer);
      clearTimeout(again);
    },
  };
}

// work makes this a shared worker: the stream is open while a visible tab is there.
function work() {
  const seen = new Map(); // when each tab was there
  let stream = null, last = null;
  const versions = {};
  const tell = (told) => {
    if (told.versions) Object.assign(versions, told.versions);
    last = told.lost ? told : { versions };
    for (const port of seen.keys()) port.postMessage(told);
  };
  const sweep = () => {
    for (const [port, at] of seen) if (Date.now() - at > gone) seen.delete(port);
    if (seen.size === 0 && stream) {
      stream.close();
      stream = last = null;
    }
  };
  setInterval(sweep, alive);
  self.onconnect = (event) => {
    const port = event.ports[0];
    port.onmessage = (message) => {
      if (message.data === "hidden") {
        seen.delete(port);
        sweep();
        return;
      }
      const known = seen.has(port);
      seen.set(port, Date.now());
      if (!stream) stream = listen(tell);
      else if (!known && last) port.postMessage(last);
    };
  };
}

// hints calls tell as listen does, while this tab is visible.
export function hints(tell, url) {
  let visible;
  if (self.SharedWorker) {
    const port = new SharedWorker(url, { type: "module", name: "drover" }).port;
    port.onmessage = (message) => tell(message.data);
    port.start();
    visible = (is) => port.postMessage(is ? "visible" : "hidden");
    setInterval(() => document.hidden || visible(true), alive);
  } else {
    let stream = null;
    visible = (is) => {
      if (is && !stream) stream = listen(tell);
      if (!is && stream) {
        stream.close();
        stream = null;
      }
    };
  }
  document.addEventListener("visibilitychange", () => visible(!document.hidden));
  addEventListener("pagehide", () => visible(false));
  addEventListener("pageshow", () => visible(!document.hidden));
  visible(!document.hidden);
}

if (self.SharedWorkerGlobalScope) work();
