// Keeps an open payer's page up to date: listens to the event stream, or polls the state where there is no stream, swaps
// the page's middle when the state changes, counts down to expiry, and copies the code.
// The page is complete without this file.
(() => {
  "use strict";

  const state = document.getElementById("state");
  if (!state) return;
  const announcement = document.getElementById("announcement");
  const address = location.pathname.replace(/\/+$/, "");
  const words = JSON.parse(state.dataset.words); // in the page's language

  const FIRST_MS = 2000; // a payer who pays now sees the confirmation within two seconds
  const SLOWEST_MS = 15000;
  const SLOWEST_AFTER_FAILURE_MS = 60000;
  const ANSWER_MS = 10000;
  const SILENCE_MS = 40000; // heartbeats come every 15 s; after two missed heartbeats the page polls
  const STREAM_AGAIN_MS = 60000;
  const MOST_ASKED = 3000; // half a day of polling at the slowest pace; coming back to the tab resets the count
  let waitMs = FIRST_MS;
  let asked = 0;
  let timer = 0;
  let busy = false;
  let again = false; // an event came while a request was open
  let serverAheadMs = 0;

  const card = () => state.firstElementChild;
  const codes = () => Array.from(state.querySelectorAll(".code"), (field) => field.value).join();
  const odd = () => state.querySelector(".anomaly")?.textContent ?? "";
  const say = (text) => { announcement.textContent = text; };

  function settle() {
    for (const each of state.querySelectorAll("[data-with-script], [data-copy]")) each.hidden = false;
    if (navigator.share) for (const each of state.querySelectorAll("[data-share]")) each.hidden = false;
    // Time to expiry is counted by the server's clock, because the payer's may be wrong by hours.
    serverAheadMs = Date.parse(card().dataset.now) - Date.now();
    tick();
  }

  async function get(path) {
    const abort = new AbortController();
    const late = setTimeout(() => abort.abort(), ANSWER_MS);
    try {
      const answer = await fetch(address + path, { cache: "no-store", credentials: "omit", signal: abort.signal });
      if (!answer.ok) throw new Error(String(answer.status));
      return await answer.text();
    } finally {
      clearTimeout(late);
    }
  }

  // The stream. Only a visible page keeps one: browsers open at most six connections to a server, and a merchant's other
  // tabs need them too.
  let stream = null;
  let heardAt = -Infinity;
  let streamAgainAt = 0;
  const hearing = () => stream !== null && performance.now() - heardAt < SILENCE_MS;

  function listen() {
    if (stream || document.hidden || card().dataset.settled === "yes" || !("EventSource" in window)) return;
    if (performance.now() < streamAgainAt) return;
    stream = new EventSource(`${address}/eventos`);
    stream.addEventListener("vivo", () => { heardAt = performance.now(); });
    stream.addEventListener("estado", (event) => {
      heardAt = performance.now();
      waitMs = FIRST_MS;
      if (differs(JSON.parse(event.data))) soon();
    });
    stream.onerror = () => {
      heardAt = -Infinity; // the page polls until the stream is back
      if (stream.readyState !== EventSource.CLOSED) return;
      streamAgainAt = performance.now() + STREAM_AGAIN_MS;
      hangUp();
    };
  }

  function hangUp() {
    stream?.close();
    stream = null;
    heardAt = -Infinity;
  }

  const differs = (seen) => seen.status !== card().dataset.status || String(seen.version) !== card().dataset.version;

  // Requests the state and, if it has changed, the middle of the page.
  async function ask() {
    if (card().dataset.settled === "yes" || asked >= MOST_ASKED) return;
    if (busy) {
      again = true;
      return;
    }
    busy = true;
    asked += 1;
    try {
      if (differs(JSON.parse(await get("/estado")))) swap(await get(`/fragmento${location.search}`));
      waitMs = Math.min(waitMs * 1.1, SLOWEST_MS);
    } catch {
      waitMs = Math.min(waitMs * 2, SLOWEST_AFTER_FAILURE_MS);
    }
    busy = false;
    if (again) {
      again = false;
      soon();
    } else plan();
  }

  function plan() {
    clearTimeout(timer);
    if (card().dataset.settled === "yes") return hangUp();
    listen();
    const next = () => { if (hearing()) plan(); else ask(); };
    timer = setTimeout(next, document.hidden ? Math.max(waitMs, SLOWEST_MS) : waitMs);
  }

  function swap(html) {
    const fresh = document.createElement("template");
    fresh.innerHTML = html;
    const before = card().dataset.status;
    const codesBefore = codes();
    const oddBefore = odd();
    const hadFocus = state.contains(document.activeElement);
    state.replaceChildren(fresh.content.firstElementChild);
    settle();
    document.title = card().dataset.title;
    const heading = state.querySelector("h1");
    if (hadFocus) heading.focus({ preventScroll: true }); // the focused element was replaced
    if (card().dataset.status === before) {
      if (codes() !== codesBefore) say(words.redated);
      else if (odd() !== oddBefore) say(odd());
      return;
    }
    state.classList.add("swapped");
    say(card().dataset.announcement);
    heading.scrollIntoView({ block: "nearest" });
  }

  // Countdown: shown each second, announced to screen readers at the moments below.
  const SPOKEN = [[60, words.minute], [300, words.minutes]];
  let leftBefore = Infinity;
  let changed = "";

  function tick() {
    const { changesAt } = card().dataset;
    if (changesAt && Date.parse(changesAt) <= Date.now() + serverAheadMs && changesAt !== changed) {
      changed = changesAt; // the PIX expired before its boleto, or the amount changed: same state, but another page
      get(`/fragmento${location.search}`).then(swap, () => { changed = ""; });
    }
    const countdown = state.querySelector("[data-expires]");
    if (!countdown) return;
    const left = Math.ceil((Date.parse(countdown.dataset.expires) - Date.now() - serverAheadMs) / 1000);
    countdown.hidden = left <= 0;
    if (left <= 0) {
      if (leftBefore > 0) soon();
      leftBefore = left;
      return;
    }
    const two = (number) => String(number).padStart(2, "0");
    const hours = Math.floor(left / 3600);
    const minutes = Math.floor(left / 60) % 60;
    if (hours >= 48) countdown.textContent = words.days.replace("{left}", Math.floor(hours / 24));
    else if (hours >= 1) countdown.textContent = words.time.replace("{left}", `${hours} h ${two(minutes)} min`);
    else countdown.textContent = words.time.replace("{left}", `${two(minutes)}:${two(left % 60)}`);
    for (const [seconds, sentence] of SPOKEN) {
      if (left <= seconds && leftBefore > seconds && leftBefore !== Infinity) say(sentence);
    }
    leftBefore = left;
  }

  // Polls at once, and at the fast pace again: the charge expires now, or the payer came back from the bank's app.
  function soon() {
    waitMs = FIRST_MS;
    asked = 0;
    clearTimeout(timer);
    ask();
  }

  async function copy(button) {
    const field = document.getElementById(button.dataset.copy);
    let copied = false;
    try {
      await navigator.clipboard.writeText(field.dataset.bare ?? field.value);
      copied = true;
    } catch {
      // No secure context, or permission refused: use execCommand; if that fails too, the code is left selected.
      field.focus();
      field.select();
      try { copied = document.execCommand("copy"); } catch { copied = false; }
      if (copied) button.focus();
    }
    if (!copied) {
      say(words.uncopied);
      return;
    }
    const label = button.textContent;
    if (!button.classList.contains("done")) {
      button.classList.add("done");
      button.textContent = `✓ ${button.dataset.done}`;
      setTimeout(() => { button.classList.remove("done"); button.textContent = label; }, 4000);
    }
    say(`${button.dataset.done}. ${words.copied}`);
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-copy], [data-print], [data-share]");
    if (!button) {
      if (event.target.matches(".code")) event.target.select();
    } else if (button.hasAttribute("data-print")) {
      window.print();
    } else if (button.hasAttribute("data-share")) {
      navigator.share({ title: button.dataset.share, url: location.href }).catch(() => {}); // the payer dismissed the dialog
    } else {
      copy(button);
    }
  });
  // Whatever way the linha digitável is copied, only its digits are: not every bank's field accepts dots and blanks.
  document.addEventListener("copy", (event) => {
    const bare = event.target.dataset?.bare;
    if (!bare || event.target.selectionEnd - event.target.selectionStart < event.target.value.length) return;
    event.clipboardData.setData("text/plain", bare);
    event.preventDefault();
  });
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) hangUp();
    else soon();
  });
  // A page in the back/forward cache must hold no connection, and is out of date when it is shown again.
  addEventListener("pagehide", hangUp);
  addEventListener("pageshow", (event) => { if (event.persisted) soon(); });

  settle();
  setInterval(tick, 1000);
  plan();
})();
