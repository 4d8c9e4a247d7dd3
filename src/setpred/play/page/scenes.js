// Scenes: what is found in an image, at every iteration.
import { get, newest, send } from "./api.js";
import { byId, showCode } from "./dom.js";
import { SceneView } from "./sceneview.js";

const STEPS = 40;

export function startScenes({ trained }) {
  const view = new SceneView(byId("scene-view"), "scene");
  const number = byId("scene-number");
  const use = (answer) => {
    view.load(answer);
    showCode("scenes-code", answer.code);
  };
  const chosen = () => get(`/api/scenes/${Math.max(0, Math.floor(Number(number.value)) || 0)}?steps=${STEPS}`);
  const show = newest((file) => (file ? send(`/api/scenes?steps=${STEPS}`, file) : chosen()), use);
  const facts = trained.scenes?.metrics;
  if (facts)
    byId("scene-quality").textContent =
      `The reader's average precision: ${percent(facts["ap_inf"])} by attributes, ${percent(facts["ap_0.5"])} within 0.5 and ${percent(facts["ap_0.25"])} within 0.25 of the place.`;

  const step = (by) => () => {
    number.value = Math.max(0, Number(number.value) + by);
    show();
  };
  byId("scene-back").addEventListener("click", step(-1));
  byId("scene-next").addEventListener("click", step(1));
  number.addEventListener("change", () => show());
  byId("scene-file").addEventListener("change", (event) => {
    if (event.target.files.length) show(event.target.files[0]);
    event.target.value = "";
  });
  view.onDrop((file) => show(file));
  show();
}

const percent = (share) => `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`;
