// A button that copies, on every piece of code. The pages are complete without this file.
(() => {
  "use strict";
  const announcement = document.getElementById("announcement");
  for (const block of document.querySelectorAll("main pre")) {
    const frame = document.createElement("div");
    frame.className = "code-block";
    block.replaceWith(frame);
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy-code";
    button.textContent = "Copy";
    frame.append(block, button);
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(block.textContent);
        button.textContent = "Copied";
        announcement.textContent = "Copied.";
      } catch {
        // No secure context, or refused: it stands there selected.
        getSelection().selectAllChildren(block);
        button.textContent = "Selected";
        announcement.textContent = "It could not be copied, and is selected instead.";
      }
      setTimeout(() => { button.textContent = "Copy"; }, 3000);
    });
  }
})();
