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

// The code of a page, folded away, with a button that copies it.
export function showCode(id, text) {
  const box = byId(id);
  if (!box.firstChild) {
    const copy = html("button", { class: "copy" }, "Copy");
    copy.addEventListener("click", async () => {
      const code = box.querySelector("code").textContent;
      try {
        await navigator.clipboard.writeText(code);
      } catch {
        getSelection().selectAllChildren(box.querySelector("code"));
        document.execCommand("copy");
      }
      copy.textContent = "Copied";
      setTimeout(() => (copy.textContent = "Copy"), 1500);
    });
    box.append(html("summary", {}, "Python that makes this"), copy, html("pre", {}, html("code", {})));
  }
  box.querySelector("code").textContent = text;
}
