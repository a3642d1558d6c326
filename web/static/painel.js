// The dashboard works without this script. The script copies texts, ticks all boxes, moves the focus to a form's fault
// and keeps a form from being sent twice.
"use strict";

const said = document.querySelector("[data-said]");

for (const button of document.querySelectorAll("[data-copy]")) {
  button.hidden = false;
  const text = button.innerHTML;
  button.addEventListener("click", async () => {
    const field = document.getElementById(button.dataset.copy);
    if (field.select) field.select();
    else getSelection().selectAllChildren(field);
    try {
      await navigator.clipboard.writeText(field.value ?? field.dataset.text);
    } catch {
      // The browser refuses, or the page is not secure: the text is selected, so that the person can copy it.
      if (said) said.textContent = "Texto selecionado. Copie com o teclado.";
      return;
    }
    button.textContent = "Copiado";
    if (said) said.textContent = "Copiado.";
    setTimeout(() => { button.innerHTML = text; }, 2500);
  });
}

// A fault is shown beside its field, or in its form, which may be several screens below.
const wrong = document.querySelector('[aria-invalid="true"]');
if (wrong) wrong.focus();
else document.querySelector(".fault")?.scrollIntoView({ block: "center" });

// The file is made of the text in the page: with the text in an address, the browser's list of downloads would keep it.
for (const button of document.querySelectorAll("[data-save]")) {
  button.hidden = false;
  button.addEventListener("click", () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([`${document.getElementById(button.dataset.save).dataset.text}\n`]));
    link.download = button.dataset.name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  });
}

// One box ticks all boxes of the table, and shows whether all, some or none of them are ticked.
for (const all of document.querySelectorAll("[data-all]")) {
  const box = all.querySelector("input");
  const boxes = [...all.closest("table").querySelectorAll('tbody .pick input[type="checkbox"]')];
  if (boxes.length === 0) continue;
  const show = () => {
    const ticked = boxes.filter((each) => each.checked).length;
    box.checked = ticked === boxes.length;
    box.indeterminate = ticked > 0 && ticked < boxes.length;
  };
  all.hidden = false;
  all.parentElement.querySelector("[data-none]")?.remove();
  box.addEventListener("change", () => {
    for (const each of boxes) each.checked = box.checked;
    box.indeterminate = false;
  });
  for (const each of boxes) each.addEventListener("change", show);
  show();
}

// Longer than the server waits for a bank. If the page is still shown by then, loading the next one was stopped, or the
// answer was a file. The form can then be sent again; the server carries out each form once.
const SENT_MS = 20000;

for (const form of document.querySelectorAll('form[method="post"]')) {
  form.addEventListener("submit", (event) => {
    if (form.dataset.sent) {
      event.preventDefault();
      return;
    }
    form.dataset.sent = "yes";
    for (const button of form.querySelectorAll('button[type="submit"]')) button.setAttribute("aria-disabled", "true");
    setTimeout(() => {
      delete form.dataset.sent;
      for (const button of form.querySelectorAll('button[type="submit"]')) button.removeAttribute("aria-disabled");
    }, SENT_MS);
  });
}

// A page from the browser's back-forward cache has forms that were sent before: it is loaded again.
window.addEventListener("pageshow", (event) => {
  if (event.persisted) location.reload();
});

// The link back to a list leads to the list with the filters it had. The sign-in page forgets the filters.
try {
  if (document.body.classList.contains("entry")) sessionStorage.clear();
  else {
    const filters = new URLSearchParams(location.search);
    filters.delete("feito");
    sessionStorage.setItem(location.pathname, String(filters));
    for (const link of document.querySelectorAll(".crumb a")) {
      if (!link.search) link.search = sessionStorage.getItem(link.pathname) ?? "";
    }
  }
} catch {
  // The browser refuses storage: the link leads to the whole list.
}

// Enter in the search for a payer presses the search's button: the form's first button would demand the payer's fields.
const wanted = document.getElementById("i-payer_query");
wanted?.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.isComposing) return;
  event.preventDefault();
  wanted.form.elements.buscar.click();
});

// Where the settings name a service for postal codes, the address of a code is filled in; typed fields stay as they are.
const postal = document.querySelector("[data-cep]");
const zip = postal?.closest("form").elements.zip_code;
zip?.addEventListener("change", async () => {
  const digits = zip.value.replace(/\D/g, "");
  postal.textContent = "";
  if (digits.length !== 8) return;
  try {
    const answer = await fetch(postal.dataset.cep + digits, { signal: AbortSignal.timeout(4000) });
    if (answer.status === 404) postal.textContent = "CEP não encontrado. Confira, ou preencha o endereço.";
    if (answer.status !== 200) return;
    const found = await answer.json();
    for (const [name, value] of Object.entries(found)) {
      const field = zip.form.elements[name];
      if (field && !field.value && value) field.value = value;
    }
    postal.textContent = "Endereço preenchido pelo CEP. Confira o número.";
  } catch {
    // The service does not answer: the person types the address.
  }
});
