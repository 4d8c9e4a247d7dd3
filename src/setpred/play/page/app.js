// Tabs by hash, each page started when it is first shown.
import { say } from "./api.js";
import { startLab } from "./lab.js";
import { startPoints } from "./points.js";
import { startRun } from "./run.js";
import { startScenes } from "./scenes.js";

const starts = { points: startPoints, scenes: startScenes, lab: startLab, run: startRun };
const started = new Set();
const tabs = [...document.querySelectorAll("[role=tab]")];
const about = fetch("/api/about").then((response) => response.json());

function show(name) {
  if (!(name in starts)) name = "points";
  for (const tab of tabs) {
    const chosen = tab.getAttribute("aria-controls") === name;
    tab.setAttribute("aria-selected", chosen);
    tab.tabIndex = chosen ? 0 : -1;
    document.getElementById(tab.getAttribute("aria-controls")).hidden = !chosen;
  }
  say("");
  if (!started.has(name)) {
    started.add(name);
    about.then((facts) => starts[name](facts)).catch(() => say("The playground does not answer. Is it still running?"));
  }
}

for (const tab of tabs) {
  tab.addEventListener("click", () => {
    // Not by setting location.hash, which would take the focus away from the tab.
    const name = tab.getAttribute("aria-controls");
    history.pushState(null, "", `#${name}`);
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

const named = () => location.hash.slice(1);
addEventListener("popstate", () => show(named()));
about.then(({ runs }) => show(named() || (runs.length ? "run" : "points"))).catch(() => show("points"));
