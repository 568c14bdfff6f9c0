"""The demo's tokenizer: byte-level BPE trained on the demo's own texts, ChatML."""

from __future__ import annotations

from collections.abc import Iterable

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

__all__ = ["CHAT_TEMPLATE", "END", "PAD", "START", "VOCABULARY", "build_tokenizer"]

START, END, PAD = "<|im_start|>", "<|im_end|>", "<|endoftext|>"
VOCABULARY = 512
"""Upper limit of token ids, specials included; a multiple of 64, which vLLM pads embeddings to."""

CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
"""Plain ChatML: nothing is injected, trimmed or rewritten, so every conversation extends its own prefix."""

_SPLIT = (
    r"""```bash\n|\n```(?:bash\n)?|sed -i '\d+s/return\.\*/return|/' \*\.py|head -3 \*\.py"""
    r"""| a (?:[-+*<>]|==) b| (?:min|max)\(a, b\)"""
    r"""| //|\n {4}(?=\S)| ?\p{L}+| ?\p{N}| ?[^\s\p{L}\p{N}`/']+|['`/]|\s+(?!\S)|\s+"""
)
"""Words as in GPT-2, except that the fixed parts of a command are one word each: an answer has 4 to 8 tokens."""


def build_tokenizer(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    """Train the tokenizer on `texts`.

    Any text round-trips (byte fallback). Text that must not become control tokens is encoded with
    ``split_special_tokens=True``.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_SPLIT), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        min_frequency=2,
        special_tokens=[PAD, START, END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END,
        pad_token=PAD,
        additional_special_tokens=[START],
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
    )
