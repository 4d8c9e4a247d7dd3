"""Eight rendered scenes, as they come."""

import base64
import io

from PIL import Image

from setpred.data.scenes import Scenes, picture

COLUMNS, COUNT, WIDTH, HEIGHT, GAP = 4, 8, 186, 124, 6


def draw() -> str:
    scenes = Scenes(seed=0)
    images = "".join(
        f'<image x="{i % COLUMNS * (WIDTH + GAP)}" y="{i // COLUMNS * (HEIGHT + GAP)}" width="{WIDTH}"'
        f' height="{HEIGHT}" href="data:image/png;base64,{encoded(scenes, i)}"/>'
        for i in range(COUNT)
    )
    width, height = COLUMNS * (WIDTH + GAP) - GAP, COUNT // COLUMNS * (HEIGHT + GAP) - GAP
    return f'<svg viewBox="0 0 {width} {height}" width="{width}">{images}</svg>'


def encoded(scenes: Scenes, index: int) -> str:
    file = io.BytesIO()
    Image.fromarray(picture(scenes.scene(index), (2 * WIDTH, 2 * HEIGHT))).save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()
