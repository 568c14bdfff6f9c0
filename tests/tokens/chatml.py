"""A small real tokenizer and chat templates that misbehave in the ways real ones do."""

from __future__ import annotations

from functools import cache

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

CORPUS = [
    "the user asks the assistant to read the file\n\n",
    "def solve(a, b):\n    return max(a, b)\n",
    "ls -la; cat a.py",
]
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TAGS = ["<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"]

PLAIN = """
{%- for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""

TOOLS = """
{%- if messages[0].role != 'system' %}{{ '<|im_start|>system\\nYou are helpful.<|im_end|>\\n' }}{% endif %}
{%- for m in messages %}
{%- if m.role == 'tool' %}
{%- if messages[loop.index0 - 1].role != 'tool' %}{{ '<|im_start|>user' }}{% endif %}
{{- '\\n<tool_response>\\n' + m.content + '\\n</tool_response>' }}
{%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{ '<|im_end|>\\n' }}{% endif %}
{%- else %}
{{- '<|im_start|>' + m.role + '\\n' + m.content }}
{%- if loop.first and tools %}{{ '\\n' }}{% for t in tools %}{{ t | tojson }}{% endfor %}{% endif %}
{%- for c in m.tool_calls or [] %}
{{- '\\n<tool_call>\\n' + ({'name': c.function.name, 'arguments': c.function.arguments} | tojson) + '\\n</tool_call>' }}
{%- endfor %}{{ '<|im_end|>\\n' }}
{%- endif %}{% endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""

OWN_CALL_END = """
{%- for t in tools %}{{ t | tojson }}{% endfor %}{% set last = namespace(name='') %}
{%- for m in messages %}
{%- if m.role == 'tool' %}{{ '<|im_start|>' + last.name + '\\n' + m.content + '<|im_end|>' }}
{%- elif m.tool_calls %}{% set f = m.tool_calls[0].function %}{% set last.name = f.name %}
{{- '<|im_start|>assistant\\n<tool_call>\\n' + ({'name': f.name, 'arguments': f.arguments} | tojson) }}
{{- '\\n</tool_call><|endoftext|>' }}
{%- else %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>' }}{% endif %}{% endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""
"""As GLM and gpt-oss: calls end otherwise than answers, results name the tool. As Hermes: there have to be tools."""

STRIPS_THOUGHTS = PLAIN.replace("m.content", "(m.content.split('</think>') | last)")
OPENS_THOUGHT = PLAIN.replace("'<|im_start|>assistant\\n'", "'<|im_start|>assistant\\n<think>\\n'")
NEEDS_USER = (
    "{% if messages | selectattr('role', 'equalto', 'user') | list | length == 0 %}"
    "{{ raise_exception('no user query') }}{% endif %}" + PLAIN
)
TRIMS = PLAIN.replace("m.content", "(m.content | trim)")
NO_SYSTEM = (
    "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate') }}{% endif %}{% endfor %}" + PLAIN
)
EOS_AT_END = PLAIN.replace("{% endif %}", "{% else %}{{ eos_token }}{% endif %}")
MOVES_SYSTEM = """
{%- for m in messages %}{% if m.role == 'user' %}
{{- '<|im_start|>user\\n' + ((messages[0].content + '\\n') if loop.last else '') + m.content + '<|im_end|>\\n' }}
{%- elif m.role == 'assistant' %}{{ '<|im_start|>assistant\\n' + m.content + '<|im_end|>\\n' }}{% endif %}{% endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""
NO_TURN_END = """
{%- for m in messages %}{{ m.role + ': ' + m.content + '\\n' }}{% endfor %}
{%- if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}"""
COUNTS_TURNS = PLAIN.replace("+ m.role +", "+ m.role + (loop.index | string) +")


@cache
def _backend() -> str:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS * 4, trainer)
    tokenizer.add_tokens(TAGS)
    return tokenizer.to_str()


def tokenizer(template: str | None = PLAIN) -> PreTrainedTokenizerFast:
    """Byte-level BPE with ChatML control tokens and tags that are added but not special, as in Qwen."""
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(_backend()),
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        chat_template=template,
        clean_up_tokenization_spaces=False,
    )
