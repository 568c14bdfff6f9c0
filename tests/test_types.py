"""The vocabulary travels: through JSON in a dataset column and through pickle to a Ray worker."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swe_plugin.errors import ConfigError
from swe_plugin.types import GradingSpec, Image, Task

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
tasks = st.builds(
    Task,
    instance_id=texts,
    problem_statement=texts,
    repo=texts,
    image=st.builds(Image, base=texts, files=st.dictionaries(texts, texts, max_size=3), workdir=texts),
    grading=st.builds(
        GradingSpec,
        command=st.lists(texts, max_size=3),
        tests=st.dictionaries(texts, texts, max_size=2),
        fail_to_pass=st.lists(texts, max_size=3),
        pass_to_pass=st.lists(texts, max_size=3),
        test_patch=texts,
        protected=st.lists(texts, max_size=2),
        expected=st.dictionaries(texts, texts, max_size=2),
        timeout_s=st.floats(0.1, 1e4),
    ),
    gold_patch=texts,
    metadata=st.dictionaries(texts, st.integers() | texts, max_size=3),
)


@given(tasks)
def test_a_task_survives_json(task: Task):
    assert Task.from_json(task.to_json()) == task


@given(tasks)
def test_equal_tasks_have_equal_json(task: Task):
    assert Task.from_json(task.to_json()).to_json() == task.to_json()


@pytest.mark.parametrize("text", ["{}", '{"instance_id": "a"}', '{"image": {}, "grading": {}, "nonsense": 1}', "[]"])
def test_what_is_not_a_task_is_refused(text):
    with pytest.raises(ValueError, match="not a task"):
        Task.from_json(text)


def test_a_config_error_survives_pickle_with_its_parts():
    error = pickle.loads(pickle.dumps(ConfigError("swe.a", 3, "write 4")))
    assert (error.key, error.value, error.fix) == ("swe.a", 3, "write 4")
    assert str(error) == "swe.a=3: write 4"
