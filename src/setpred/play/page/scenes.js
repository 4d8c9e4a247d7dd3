// Scenes: what is found in an image, at every iteration.
import { get, newest, send } from "./api.js";
import { byId, showCode } from "./dom.js";
import { SceneView } from "./sceneview.js";

const STEPS = 40;

const MOST = 999_999;

export function startScenes({ trained }, address, write) {
  const view = new SceneView(byId("scene-view"), "scene");
  const number = byId("scene-number");
  let scene = limited(address.get("scene") ?? number.value);
  const show = newest(
    (file) => (file ? send(`/api/scenes?steps=${STEPS}`, file) : get(`/api/scenes/${scene}?steps=${STEPS}`)),
    (answer) => {
      view.load(answer);
      showCode("scenes-code", answer.code);
    },
  );
  const facts = trained.scenes?.metrics;
  if (facts)
    byId("scene-quality").textContent =
      `The reader's average precision: ${percent(facts["ap_inf"])} by attributes, ${percent(facts["ap_0.5"])} within 0.5 and ${percent(facts["ap_0.25"])} within 0.25 of the place.`;

  const choose = (wanted) => {
    scene = limited(wanted);
    number.value = scene;
    write(`scene=${scene}`);
    show();
  };
  const upload = (file) => {
    number.value = ""; // a number that is entered next is then a change, even if it is the same again
    show(file);
  };
  byId("scene-back").addEventListener("click", () => choose(scene - 1));
  byId("scene-next").addEventListener("click", () => choose(scene + 1));
  number.addEventListener("change", () => choose(number.value === "" ? scene : number.value));
  byId("scene-file").addEventListener("change", (event) => {
    if (event.target.files.length) upload(event.target.files[0]);
    event.target.value = "";
  });
  view.onDrop(upload);
  const restore = (params) => choose(params.get("scene") ?? scene);
  restore(address);
  return restore;
}

const limited = (value) => Math.max(0, Math.min(MOST, Math.floor(Number(value)) || 0));
const percent = (fraction) => `${(100 * fraction).toFixed(fraction < 0.1 ? 1 : 0)} %`;
