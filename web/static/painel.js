// The dashboard is complete without this file, which copies texts, ticks all boxes of a table, moves to the faulty field
// of a form, and keeps a form from being sent twice.
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
      // No permission, or no secure context: the text is left selected, so that the person can copy it.
      if (said) said.textContent = "Texto selecionado. Copie com o teclado.";
      return;
    }
    button.textContent = "Copiado";
    if (said) said.textContent = "Copiado.";
    setTimeout(() => { button.innerHTML = text; }, 2500);
  });
}

// A form's faults are shown beside the field or in the form, which may be several screens down.
const wrong = document.querySelector('[aria-invalid="true"]');
if (wrong) wrong.focus();
else document.querySelector(".fault")?.scrollIntoView({ block: "center" });

// The file is made in the page: with a download address, the text would stay in the browser's list of downloads.
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

// One box ticks all boxes of the page; it shows whether all, some or none of them are ticked.
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

// Longer than the server waits for a bank. If the page is still shown after that, the person stopped the navigation, or
// the answer was a file. The form can then be sent again; the server still carries it out only once.
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

// A page restored from the back/forward cache has forms that were sent before, so it is reloaded.
window.addEventListener("pageshow", (event) => {
  if (event.persisted) location.reload();
});

// A link back to a list restores the list's filters. The stored filters are cleared at the sign-in page.
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
  // Storage is refused: the link leads to the list without filters.
}

// Enter in the search for a payer presses the search's own button: the form's would first require the payer's fields.
const wanted = document.getElementById("i-payer_query");
wanted?.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.isComposing) return;
  event.preventDefault();
  wanted.form.elements.buscar.click();
});

// If the operator has configured a postal code service, the address of a CEP is filled in; typed fields are kept.
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
    // No answer: the person types the address.
  }
});
