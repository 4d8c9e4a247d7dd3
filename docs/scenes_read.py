"""Draw scenes that were not trained on, as the shipped model reads them: `scene-to-set.png` and `scenes-read.png`.

python docs/scenes_read.py
"""

from pathlib import Path

import torch
from PIL import Image, ImageDraw, ImageFont

from setpred.data.scenes import Scenes, picture, studio
from setpred.play import pretrained
from setpred.views.scenes import WORDS, Pair, draw_on_image, pair_up
from setpred.views.style import MUTED, panel, style

SEED, ROWS, COLUMNS = 10, 2, 3
IMAGES = Path(__file__).parent / "images"
SCENE, LIST = (1080, 720), 800  # pixels of the scene, and of the list beside it
NIGHT, PALE, GREY = "#14181d", "#e8eaed", "#9aa3af"  # the list is dark on every page, as a terminal is


def main() -> None:
    model, scenes = pretrained("scenes"), Scenes(size=(192, 128), seed=SEED)
    found = []
    for index in range(ROWS * COLUMNS):
        image, truth, _ = scenes[index]
        with torch.no_grad():
            found.append(pair_up(model(image[None])[0], truth))
    with style():
        figure, axes = panel(ROWS, COLUMNS, width=10.2, height=5.1)
        for index, (place, pairs) in enumerate(zip(axes.flat, found, strict=True)):
            scene = scenes.scene(index)
            draw_on_image(place, torch.from_numpy(picture(scene, (480, 320))).permute(2, 0, 1), pairs, scene.camera)
            right, there = sum(pair.right for pair in pairs), sum(pair.true is not None for pair in pairs)
            extra = len(pairs) - there
            title = f"{right} of {there} right" + (f", {extra} not there" if extra else "")
            place.set_title(title, fontsize=9, color=MUTED)
        figure.savefig(IMAGES / "scenes-read.png", dpi=110, transparent=True)
    scene_to_set(scenes, 0, found[0]).save(IMAGES / "scene-to-set.png", optimize=True)


def scene_to_set(scenes: Scenes, index: int, pairs: list[Pair]) -> Image.Image:
    """A scene, and beside it the list of the objects that were read in it."""
    scene = scenes.scene(index)
    drawn = Image.new("RGB", (SCENE[0] + LIST, SCENE[1]), NIGHT)
    drawn.paste(Image.fromarray(picture(scene, SCENE)))
    pen, font = ImageDraw.Draw(drawn), ImageFont.load_default(26)
    left, line = SCENE[0] + 50, SCENE[1] / (len(pairs) + 2)
    for column, word in zip((70, 190, 320, 450, 580), (*WORDS, "place"), strict=True):
        pen.text((left + column, line * 0.9), word, GREY, font, "lm")
    for row, pair in enumerate(pairs, 2):
        seen = pair.predicted
        assert seen is not None, "the model missed an object: choose what the list should say"
        across, up = studio.project(seen["3d_coords"], scene.camera)[:2]
        here = across * SCENE[0] / studio.WIDTH, up * SCENE[1] / studio.HEIGHT
        for x, y in (here, (left + 20, row * line)):
            pen.ellipse((x - 20, y - 20, x + 20, y + 20), tuple(studio.COLORS[seen["color"]]), PALE, 2)
            pen.text((x, y), str(pair.number), "white", font, "mm", stroke_width=2, stroke_fill="black")
        for column, word in zip((70, 190, 320, 450), WORDS, strict=True):
            pen.text((left + column, row * line), seen[word], PALE, font, "lm")
        place = ", ".join(f"{number:.1f}" for number in seen["3d_coords"])
        pen.text((left + 580, row * line), place, PALE, font, "lm")
    return drawn.resize((drawn.width * 6 // 10, drawn.height * 6 // 10), Image.Resampling.LANCZOS)


if __name__ == "__main__":
    main()
