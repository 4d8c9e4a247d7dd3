// Tabs, each page started when it is first shown. The address holds the page and its state: #points?set=…
import { say } from "./api.js";

// `starts` are functions of `facts` (a promise), of the state in the address, and of `write`, which puts a state there.
// Each may return a function that takes another state.
export function startPages(starts, facts, first) {
  const tabs = [...document.querySelectorAll("[role=tab]")].filter((tab) => tab.getAttribute("aria-controls") in starts);
  for (const tab of document.querySelectorAll("[role=tab]"))
    if (!tabs.includes(tab)) {
      document.getElementById(tab.getAttribute("aria-controls")).remove();
      tab.remove();
    }
  const pages = {}; // what was started: the state last written, and how to take another one
  let shown = null;

  function show(name, state) {
    shown = name;
    for (const tab of tabs) {
      const chosen = tab.getAttribute("aria-controls") === name;
      tab.setAttribute("aria-selected", chosen);
      tab.tabIndex = chosen ? 0 : -1;
      document.getElementById(tab.getAttribute("aria-controls")).hidden = !chosen;
    }
    document.getElementById(`tab-${name}`).scrollIntoView({ block: "nearest", inline: "nearest" });
    say("");
    if (!pages[name]) start(name, state);
    else if (state && state !== pages[name].state) pages[name].restore?.(new URLSearchParams(state));
  }

  async function start(name, state) {
    const page = (pages[name] = { state });
    const write = (next) => {
      page.state = next;
      if (shown === name) history.replaceState(null, "", address(name, next));
    };
    try {
      page.restore = starts[name](await facts, new URLSearchParams(state), write);
    } catch (error) {
      say(error.message);
    }
  }

  for (const tab of tabs) {
    tab.addEventListener("click", () => {
      // Not by setting location.hash, which would take the focus away from the tab.
      const name = tab.getAttribute("aria-controls");
      history.pushState(null, "", address(name, pages[name]?.state));
      show(name);
    });
    tab.addEventListener("keydown", (event) => {
      const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!by) return;
      const next = tabs[(tabs.indexOf(tab) + by + tabs.length) % tabs.length];
      next.focus();
      next.click();
    });
  }
  const follow = () => {
    const [name, state = ""] = location.hash.slice(1).split("?");
    show(name in starts ? name : first, state);
  };
  addEventListener("popstate", follow);
  follow();
}

const address = (name, state) => `#${name}${state ? `?${state}` : ""}`;
