"""Draw the scenes whose objects hide each other most, as the paper's Tables 9 and 10 do: `hard-scenes.png`.

python docs/hard_scenes.py
"""

import io
from itertools import combinations
from pathlib import Path

import torch
from matplotlib.figure import Figure
from PIL import Image

from setpred.data.clevr import CLEVR_SCHEMA
from setpred.data.scenes import Scenes, picture, studio
from setpred.play import pretrained
from setpred.play.scenes_tab import decoded
from setpred.views.scenes import scene_figure
from setpred.views.style import style

SEED, AMONG, SHOWN = 10, 128, 4
STAGES = (10, 20, 40)
OUT = Path(__file__).parent / "images" / "hard-scenes.png"


def main() -> None:
    scenes = Scenes(size=(192, 128), seed=SEED)
    hardest = sorted(range(AMONG), key=lambda index: nearest(scenes, index))[:SHOWN]
    strips = []
    for index in hardest:
        image, truth, _ = scenes[index]
        with torch.no_grad():
            read = CLEVR_SCHEMA.encode_batch(pretrained("scenes").predict(image[None]))[0][0]
        ways = decoded(image[None], max(STAGES))
        predictions = {"read": read} | {f"{stage} iterations": ways[stage] for stage in STAGES}
        scene = scenes.scene(index)
        large = torch.from_numpy(picture(scene, (480, 320))).permute(2, 0, 1)
        with style():
            figure = scene_figure(large, truth, predictions, scene.camera, f"scene {index}")
            strips.append(pixels(figure))
    whole = Image.new("RGB", (max(s.width for s in strips), sum(s.height for s in strips)), "white")
    above = 0
    for strip in strips:
        whole.paste(strip, (0, above))
        above += strip.height
    whole.quantize(256, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE).save(OUT, optimize=True)


def nearest(scenes: Scenes, index: int) -> float:
    """How near two objects come in the picture, in pixels: the nearer, the more of one is hidden."""
    scene = scenes.scene(index)
    _, truth, present = scenes[index]
    seen = studio.project(CLEVR_SCHEMA.position(truth[present]).double().numpy(), scene.camera)[..., :2]
    return min(float(abs(a - b).max()) for a, b in combinations(seen, 2))


def pixels(figure: Figure) -> Image.Image:
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=100)
    return Image.open(file).convert("RGB")


if __name__ == "__main__":
    main()
