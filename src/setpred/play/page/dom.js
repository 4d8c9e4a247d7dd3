// Elements in one line each.
const SVG = "http://www.w3.org/2000/svg";

function make(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children);
  return element;
}

export const html = (name, attributes, ...children) => make(document.createElement(name), attributes, children);
export const svg = (name, attributes, ...children) => make(document.createElementNS(SVG, name), attributes, children);
export const byId = (id) => document.getElementById(id);

// A slider with its name and value. `live` is called while it moves, `settled` when it is let go.
export function slider({ id, name, hint, min, max, step, value, show = String, live, settled }) {
  const output = html("output", { for: id }, show(value));
  const input = html("input", { id, type: "range", min, max, step, title: hint });
  input.value = value;
  input.addEventListener("input", () => {
    output.textContent = show(Number(input.value));
    live?.(Number(input.value));
  });
  if (settled) input.addEventListener("change", () => settled(Number(input.value)));
  const set = (to) => {
    input.value = to;
    output.textContent = show(Number(input.value));
  };
  return { element: html("label", { class: "slider", for: id }, html("span", {}, name), input, output), input, set };
}

// A button that copies a text, and says so.
export function copyButton(name, text, attributes) {
  const button = html("button", attributes, name);
  button.addEventListener("click", async () => {
    await copy(text());
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = name), 1500);
  });
  return button;
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Only secure pages have a clipboard; any page may copy what is selected.
    const field = html("textarea", { class: "unseen" }, text);
    document.body.append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
  }
}

// The code of a page, folded away, with a button that copies it.
export function showCode(id, text) {
  const box = byId(id);
  if (!box.firstChild) {
    const button = copyButton("Copy", () => box.querySelector("code").textContent, { class: "copy" });
    box.append(html("summary", {}, "Python code that makes this"), button, html("pre", {}, html("code", {})));
  }
  box.querySelector("code").textContent = text;
}
