"""Draw `docs/images/scenes-read.png`: scenes that were not trained on, as the shipped model reads them.

python docs/scenes_read.py
"""

from pathlib import Path

import torch

from setpred.data.scenes import Scenes, picture
from setpred.play import pretrained
from setpred.views.scenes import draw_on_image, pair_up
from setpred.views.style import panel, style

SEED, ROWS, COLUMNS = 10, 2, 3
OUT = Path(__file__).parent / "images" / "scenes-read.png"


def main() -> None:
    model, scenes = pretrained("scenes"), Scenes(size=(192, 128), seed=SEED)
    with style():
        figure, axes = panel(ROWS, COLUMNS, width=10.2, height=5.1)
        for index, place in enumerate(axes.flat):
            image, truth, _ = scenes[index]
            with torch.no_grad():
                pairs = pair_up(model(image[None])[0], truth)
            scene = scenes.scene(index)
            shown = torch.from_numpy(picture(scene, (480, 320))).permute(2, 0, 1)
            draw_on_image(place, shown, pairs, scene.camera)
            right, there = sum(pair.right for pair in pairs), sum(pair.true is not None for pair in pairs)
            extra = len(pairs) - there
            place.set_title(f"{right} of {there} right" + (f", {extra} not there" if extra else ""), fontsize=9)
        figure.savefig(OUT, dpi=110)


if __name__ == "__main__":
    main()
