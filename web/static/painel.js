// The dashboard is complete without this: it copies, and keeps a form from being sent twice.
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
      // Not allowed, or not a secure page: the text is selected, the person can copy it.
      if (said) said.textContent = "Texto selecionado. Copie com o teclado.";
      return;
    }
    button.textContent = "Copiado";
    if (said) said.textContent = "Copiado.";
    setTimeout(() => { button.innerHTML = text; }, 2500);
  });
}

for (const form of document.querySelectorAll('form[method="post"]')) {
  form.addEventListener("submit", (event) => {
    if (form.dataset.sent) {
      event.preventDefault();
      return;
    }
    form.dataset.sent = "yes";
    for (const button of form.querySelectorAll('button[type="submit"]')) button.setAttribute("aria-disabled", "true");
  });
}

// A page that comes back from the browser's memory has forms that were sent before: it is asked for again.
window.addEventListener("pageshow", (event) => {
  if (event.persisted) location.reload();
});

// A list is found with its filters again by the link that leads back to it. Whoever signs in begins anew.
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
  // Storage is refused: the link leads to the whole list.
}

// Enter in the search for a payer presses its own button: the form's would first want what the payer's fields lack.
const wanted = document.getElementById("i-payer_query");
wanted?.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.isComposing) return;
  event.preventDefault();
  wanted.form.elements.buscar.click();
});

// Where the operator has named who knows postal codes, the address of one is filled in; nothing that was typed changes.
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
    // No answer: the address is typed.
  }
});
