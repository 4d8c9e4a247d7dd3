// The playground with a server behind it.
import { get } from "./api.js";
import { startLab } from "./lab.js";
import { startPages } from "./pages.js";
import { startPoints } from "./points.js";
import { startRun } from "./run.js";
import { startScenes } from "./scenes.js";

const facts = get("/api/about");
const starts = { points: startPoints, lab: startLab, scenes: startScenes, run: startRun };
facts.then(({ runs }) => runs.length > 0, () => false).then((any) => startPages(starts, facts, any ? "run" : "points"));
