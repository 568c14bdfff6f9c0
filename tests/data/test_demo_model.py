"""The demo's tokenizer and artefacts (a warm start of one step: learning is a benchmark, not a unit test)."""

import random
from collections import Counter

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM, AutoTokenizer

from swe_plugin.config import DemoConfig
from swe_plugin.data.demo import FIXES, LOOK, MENU, SimulatedEpisode, split_tasks
from swe_plugin.tokens.renderers.chat_template import ChatTemplateRenderer
from swe_plugin.types import Message, Task
from swe_plugin.verl_adapter.demo import warm_start
from swe_plugin.verl_adapter.demo.baselines import blind_rate, random_policy_rate
from swe_plugin.verl_adapter.demo.episodes import Conversation, answer, prompts, read_command
from swe_plugin.verl_adapter.demo.tokenizer import END, START, VOCABULARY, build_tokenizer
from swe_plugin.verl_adapter.demo_model import prepare_demo

TOKENIZER = build_tokenizer(warm_start.corpus(0))
HELDOUT = split_tasks()[1]


@given(st.text())
def test_any_text_round_trips(text):
    assert TOKENIZER.decode(TOKENIZER.encode(text, split_special_tokens=True)) == text


def test_observations_cannot_make_control_tokens():
    control = set(TOKENIZER.convert_tokens_to_ids([START, END]))
    assert not control & set(TOKENIZER.encode(f"{START}system\nhi{END}", split_special_tokens=True))
    assert control <= set(TOKENIZER.encode(f"{START}system\nhi{END}"))


@pytest.mark.parametrize("command", MENU)
def test_a_command_is_read_as_it_is_written(command):
    assert read_command(answer(command, "the sum")) == command


def test_ids_are_those_of_the_renderer_that_training_uses():
    renderer = ChatTemplateRenderer(TOKENIZER)
    messages = prompts().opening(HELDOUT[0])
    conversation = Conversation(TOKENIZER, SimulatedEpisode(HELDOUT[0], 3))
    ids = renderer.initial(messages)
    for turn, command in enumerate((LOOK, FIXES[0], FIXES[1])):
        assert conversation.ids == ids
        sampled = [*TOKENIZER.encode(answer(command)), TOKENIZER.eos_token_id]
        conversation.reply(sampled)
        ids = ids + sampled
        if turn < 2:
            pieces = renderer.extension([Message("user", conversation.observation)], sampled=sampled)
            ids = ids + [token for piece in pieces for token in piece.ids]
    assert conversation.ids == ids
    assert len(conversation.ids) == len(conversation.mask) <= 192
    assert conversation.mask[-1] == 1, "a row ends on a sampled token"


def test_warm_start_commands_do_not_depend_on_the_task():
    drawn = Counter(warm_start.random_command(random.Random(i), 1) for i in range(4000))
    assert set(drawn) == set(MENU)
    assert max(drawn[f] for f in FIXES) < 1.4 * min(drawn[f] for f in FIXES)


def test_baselines_are_at_chance():
    assert blind_rate(HELDOUT) == 1 / len(FIXES)
    assert 0 < random_policy_rate(HELDOUT, 3) < 1 / len(FIXES)


def test_artefacts_load_and_are_built_once(tmp_path):
    config = DemoConfig(warm_start_steps=1)
    made = prepare_demo(config, tmp_path)
    stamp = made.train.stat().st_mtime_ns
    assert prepare_demo(config, tmp_path) == made
    assert made.train.stat().st_mtime_ns == stamp
    assert [p.name for p in (tmp_path / "demo").iterdir()] == [made.model.parent.name], "a build leaves nothing else"
    assert made.baselines["untrained"] <= made.baselines["never_reads"] == 0.125

    model, tokenizer = AutoModelForCausalLM.from_pretrained(made.model), AutoTokenizer.from_pretrained(made.model)
    assert (type(model).__name__, model.config.vocab_size) == ("LlamaForCausalLM", VOCABULARY)
    assert model.config.eos_token_id == tokenizer.eos_token_id == tokenizer.convert_tokens_to_ids(END)
    rows = pq.read_table(made.heldout).to_pylist()
    assert len(rows) == len(HELDOUT)
    assert {(r["data_source"], r["agent_name"]) for r in rows} == {("swe_demo", "swe")}
    assert [r["extra_info"]["instance_id"] for r in rows] == [Task.from_json(r["task"]).instance_id for r in rows]
    assert all(len(tokenizer.apply_chat_template(r["prompt"], return_dict=False)) <= 64 for r in rows)
