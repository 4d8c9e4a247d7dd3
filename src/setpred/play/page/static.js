// The playground without a server: the pages that the browser computes by itself.
import { startLab } from "./lab.js";
import { startPages } from "./pages.js";
import { startPoints } from "./points.js";

document.body.classList.add("static");
startPages({ points: startPoints, lab: startLab }, Promise.resolve({}), "points");
