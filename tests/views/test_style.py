"""Models can be told apart in figures, those of ours and those that somebody adds."""

import pytest

from setpred.tasks import TASKS, find_task
from setpred.views.style import VARIABLES, model_style


@pytest.mark.parametrize("task", TASKS)
def test_no_two_models_of_a_task_look_alike(task):
    models = [*find_task(task).models, "best"]
    styles = {model_style(model) for model in models}
    assert len(styles) == len(models)


def test_models_without_a_line_of_their_own_look_like_none_of_ours():
    ours = {model_style(model) for task in TASKS for model in find_task(task).models}
    others = {model_style(f"my-model-{i}") for i in range(40)}
    assert not others & ours
    assert len(others) == 8
    assert {colour for colour, _ in others} <= set(VARIABLES)  # which follow the page into the dark
