"""Keep of each numbering run the test set with most wrong numbers, as the paper's Table 8 does.

python docs/worst_numbers.py results/numbering-small/worst.json RUN...
"""

import json
import sys
from pathlib import Path
from typing import Any

from setpred.report.runs import predict_examples, read_run


def main(out: Path, runs: list[Path]) -> None:
    lines = ",\n".join(json.dumps(worst(run)) for run in runs)
    out.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def worst(path: Path) -> dict[str, Any]:
    """The classes and the numbers of the elements, sorted, and where they come from."""
    run = read_run(path)
    shown = predict_examples(run)
    assert shown is not None, f"{path} is not finished"
    examples = shown.examples
    assert examples.inputs is not None
    which = int(examples.error.argmax())
    elements = sorted(zip(examples.inputs[which].tolist(), examples.predicted[which].tolist(), strict=True))
    return {
        "run": path.name,
        "model": run.model,
        "name": run.name,
        "preset": run.settings.preset,
        "commit": run.result["commit"],
        "steps": run.result["steps"],
        "accuracy": run.result["metrics"]["accuracy"],
        "among": len(examples.error),
        "wrong": int(examples.error[which]),
        "elements": elements,
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(word) for word in sys.argv[2:]])
