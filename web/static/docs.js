// Adds a copy button to every block of code, keeps all examples in one language, and filters the search. The pages are
// complete without this file.
(() => {
  "use strict";
  const announcement = document.getElementById("announcement");
  const { copy, copied, selected } = document.body.dataset;
  for (const block of document.querySelectorAll("main pre")) {
    const frame = document.createElement("div");
    frame.className = "code-block";
    block.replaceWith(frame);
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy-code";
    button.textContent = copy;
    frame.append(block, button);
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(block.textContent);
        button.textContent = copied;
        announcement.textContent = copied;
      } catch {
        // No secure context, or permission refused: the code is left selected.
        getSelection().selectAllChildren(block);
        button.textContent = selected;
        announcement.textContent = selected;
      }
      setTimeout(() => { button.textContent = copy; }, 3000);
    });
  }

  // A language chosen for one example applies to all examples. The choice is stored in this browser only.
  const KEY = "docs-language";
  const choose = (language) => {
    for (const each of document.querySelectorAll(`.tabs > input[data-language="${language}"]`)) each.checked = true;
  };
  const buttons = document.querySelectorAll(".tabs > input");
  try {
    const kept = localStorage.getItem(KEY);
    if (kept && [...buttons].some((each) => each.dataset.language === kept)) choose(kept);
  } catch { /* storage is switched off */ }
  for (const each of buttons) {
    each.addEventListener("change", () => {
      const above = each.getBoundingClientRect().top;
      choose(each.dataset.language);
      scrollBy(0, each.getBoundingClientRect().top - above);
      try { localStorage.setItem(KEY, each.dataset.language); } catch { /* as above */ }
    });
  }

  // A reader who is signed in to the dashboard sees their own ids in the examples. None of these is a secret.
  const texts = [];
  for (const code of document.querySelectorAll("main pre code")) {
    if (/YOUR_(ACCOUNT|CLIENT)_ID/.test(code.textContent)) texts.push(code.firstChild);
  }
  const fill = async () => {
    const answer = await fetch("/painel/teste/chaves.json", { redirect: "manual" });
    if (!answer.ok) return;
    const { account_id: account, client_id: client } = await answer.json();
    for (const text of texts) {
      text.data = text.data.replaceAll("YOUR_ACCOUNT_ID", account).replaceAll("YOUR_CLIENT_ID", client ?? "YOUR_CLIENT_ID");
    }
  };
  if (texts.length) fill().catch(() => { /* nobody is signed in, or the dashboard is elsewhere */ });

  const field = document.getElementById("docs-search");
  if (!field) return;
  // Folds as the server does (web/documentation/search.py): 2ª becomes 2a.
  const plain = (text) => text.normalize("NFKD").replace(/[\u0300-\u036f]/g, "").toLowerCase();
  const entries = [...document.querySelectorAll("#entries > li")].map((item, place) => {
    const title = plain(`${item.textContent} ${item.dataset.same ?? ""}`);
    return { item, at: Number(item.dataset.at ?? place), title, words: `${title} ${plain(item.dataset.words)}` };
  });
  const list = document.getElementById("entries");
  const told = document.getElementById("search-found");
  const narrow = () => {
    const wanted = plain(field.value).split(/\s+/).filter(Boolean);
    const rank = ({ title, words }) => {
      if (!wanted.every((word) => words.includes(word))) return 0;
      return wanted.every((word) => title.includes(word)) ? 2 : 1;
    };
    const ranked = entries.map((entry) => ({ ...entry, rank: rank(entry) }));
    ranked.sort((a, b) => b.rank - a.rank || a.at - b.at);
    for (const { item, rank: found } of ranked) item.hidden = found === 0;
    list.append(...ranked.map(({ item }) => item));
    const found = ranked.filter((entry) => entry.rank > 0).length;
    const words = found ? field.dataset.found.replace("{n}", found) : field.dataset.none.replace("{q}", () => field.value.trim());
    announcement.textContent = told.textContent = wanted.length ? words : "";
    told.hidden = wanted.length === 0;
  };
  field.value = decodeURIComponent(location.hash.slice(1)) || field.value;
  field.addEventListener("input", narrow);
  narrow();
})();
