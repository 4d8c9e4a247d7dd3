"""Loading a file never runs code that is in it."""

import ast
import os
import pickle
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from readers import READERS, read_whole_run

import setpred as sp

SOURCE = Path(sp.__file__).parent
# What can turn bytes into code: (name of the call, what makes it harmless).
DANGEROUS = {
    "pickle.load", "pickle.loads", "pickle.Unpickler", "marshal.loads", "shelve.open", "dill.load", "joblib.load",
    "yaml.load", "yaml.load_all", "yaml.full_load", "yaml.unsafe_load", "eval", "exec", "os.system",
}  # fmt: skip


def calls(path: Path) -> list[tuple[str, ast.Call]]:
    return [(ast.unparse(n.func), n) for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call)]


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_call_can_run_a_file(path):
    for name, call in calls(path):
        options = {word.arg: ast.unparse(word.value) for word in call.keywords}
        assert name not in DANGEROUS, f"line {call.lineno}: {name}"
        if name == "torch.load":
            assert options.get("weights_only") == "True", f"line {call.lineno}"
        if name == "np.load":
            assert options.get("allow_pickle", "False") == "False", f"line {call.lineno}"
        if name in ("subprocess.run", "subprocess.Popen"):
            assert "shell" not in options, f"line {call.lineno}"


class Payload:
    """A pickle that makes a folder when it is loaded."""

    def __init__(self, made: Path):
        self.made = made

    def __reduce__(self):
        return os.mkdir, (str(self.made),)


def payloads(made: Path) -> dict[str, bytes]:
    yaml = f"!!python/object/apply:os.mkdir ['{made}']"
    return {
        "pickle": pickle.dumps({"state_dict": Payload(made), "format": 1}),
        "yaml": yaml.encode(),
        "nested yaml": f"task: folder\nsolver: {yaml}\n".encode(),
        "json": f'{{"format": 1, "model": {{"class": "os.mkdir", "path": "{made}"}}}}'.encode(),
    }


def test_the_payload_would_work(tmp_path):
    pickle.loads(payloads(tmp_path / "made")["pickle"])
    assert (tmp_path / "made").exists()


@pytest.mark.parametrize("kind", ["pickle", "yaml", "nested yaml", "json"])
@pytest.mark.parametrize("reader", READERS)
def test_a_file_with_code_in_it_does_not_run(reader, kind, tmp_path):
    chosen, made = READERS[reader], tmp_path / "made"
    root = tmp_path / "data"
    root.mkdir()
    chosen.write(root)
    for file in set(chosen.files):
        sound = (root / file).read_bytes()
        (root / file).write_bytes(payloads(made)[kind])
        with suppress(ValueError):  # some tables are still tables
            chosen.read(root)
        (root / file).write_bytes(sound)
    assert not made.exists()


def test_torch_files_are_not_weights_of_a_model(tmp_path):
    made = tmp_path / "made"
    READERS["run folder"].write(tmp_path)
    torch.save({"net": Payload(made)}, tmp_path / "run" / "model.safetensors")
    with pytest.raises(ValueError, match="damaged"):
        read_whole_run(tmp_path)
    assert not made.exists()
