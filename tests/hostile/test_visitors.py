"""Many visitors at once are all answered, and the playground grows no fatter for it."""

import asyncio
import io
import random
import subprocess
import sys
import time
from pathlib import Path

import httpx2
import pytest
from PIL import Image

VISITORS, SECONDS, PAUSE = 50, 300, 2.0


def picture(colour):
    file = io.BytesIO()
    Image.new("RGB", (300, 200), colour).save(file, "PNG")
    return file.getvalue()


async def visit(client, seed, until, seconds):
    """Load the page, look at scenes and upload pictures in turn, with a person's pauses."""
    draw = random.Random(seed)
    await asyncio.sleep(draw.uniform(0, PAUSE))
    while time.monotonic() < until:
        colour = tuple(draw.randrange(256) for _ in range(3))
        path, body = draw.choices(
            [
                ("/", None),
                ("/weights.js", None),
                (f"/api/scenes/{draw.randrange(1000)}?steps=20", None),
                ("/api/scenes?steps=20", picture(colour)),
            ],
            weights=[2, 1, 5, 2],
        )[0]
        begun = time.monotonic()
        answer = await (client.get(path) if body is None else client.post(path, content=body))
        seconds.append(time.monotonic() - begun)
        assert answer.status_code == 200, answer.text
        await asyncio.sleep(draw.uniform(0, 2 * PAUSE))


def resident_mb(pid):
    (line,) = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS:")]
    return int(line.split()[1]) / 1024


async def crowd(address, pid):
    """How long each answer took, and the memory of the server every ten seconds."""
    until, seconds, memory = time.monotonic() + SECONDS, [], []
    limits = httpx2.Limits(max_connections=VISITORS)
    async with httpx2.AsyncClient(base_url=address, timeout=60, limits=limits) as client:
        visits = asyncio.gather(*(visit(client, seed, until, seconds) for seed in range(VISITORS)))
        while not visits.done():
            memory.append(resident_mb(pid))
            await asyncio.wait([visits], timeout=10)
        await visits
    return sorted(seconds), memory


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
@pytest.mark.nightly
def test_fifty_visitors_for_five_minutes(note):
    command = [sys.executable, "-m", "setpred", "play", "--port", "0", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            address = next(word for line in server.stdout for word in line.split() if word.startswith("http://"))
            for path in ("/api/scenes/0", "/api/about"):  # the models are loaded
                httpx2.get(address.rstrip("/") + path, timeout=60).raise_for_status()
            seconds, memory = asyncio.run(crowd(address, server.pid))
        finally:
            server.terminate()
    settled = memory[len(memory) // 5 :]
    note("visitors", VISITORS)
    note("answers, none of them an error", len(seconds))
    for name, share in (("median", 0.5), ("p95", 0.95), ("p99", 0.99)):
        note(f"{name} of the answers in ms", round(1000 * seconds[int(share * len(seconds))]))
    note("memory of the server in MB, after a minute and at the end", [round(settled[0]), round(settled[-1])])
    assert settled[-1] <= 1.1 * settled[0]
