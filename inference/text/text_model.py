"""What a model file says about text: its tokenizer and its chat template, together.

Knows which metadata keys hold them; the work is done by `tokenizer` and `chat_template`.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from inference.text.chat_template import CHATML, ChatTemplate, default_template
from inference.text.metadata_fields import read_str
from inference.text.template_process import TemplateProcess
from inference.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from collections.abc import Mapping

_TEMPLATE_KEY = "tokenizer.chat_template"
_CHATML_MARKS = ("<|im_end|>", "<|im_start|>")


@dataclass(frozen=True)
class TextModel:
    """chat_stops: strings that end an answer in a chat, for a model without tokens that do."""

    tokenizer: Tokenizer
    chat_template: ChatTemplate
    chat_stops: tuple[str, ...] = ()
    has_own_template: bool = False

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, object]) -> TextModel:
        """Raises: TextError, for a vocabulary or a template that is malformed or unsupported."""
        source = read_str(metadata, _TEMPLATE_KEY, "")
        # The template's process takes as long to start as a vocabulary takes to read.
        with ThreadPoolExecutor(1) as beside:
            starting = beside.submit(TemplateProcess, source or CHATML)
            tokenizer = Tokenizer.from_metadata(metadata)
        process = starting.result()
        bos_token, eos_token = (
            tokenizer.token_text(tokenizer.bos_id),
            tokenizer.token_text(tokenizer.eos_id),
        )
        if source:
            template = ChatTemplate(source, bos_token, eos_token, process=process)
            return cls(tokenizer, template, has_own_template=True)
        knows_chatml = all(
            len(tokenizer.encode(mark, add_special=False, parse_special=True)) == 1
            for mark in _CHATML_MARKS
        )
        return cls(
            tokenizer,
            default_template(bos_token, eos_token, process),
            () if knows_chatml else _CHATML_MARKS,
        )

    def encode_chat(self, prompt: str) -> list[int]:
        """Token ids of a rendered prompt: its control tokens count, and bos comes exactly once.

        Templates differ in whether they write the bos token themselves.
        """
        tokenizer = self.tokenizer
        ids = tokenizer.encode(prompt, add_special=False, parse_special=True)
        if tokenizer.add_bos and tokenizer.bos_id is not None and ids[:1] != [tokenizer.bos_id]:
            ids.insert(0, tokenizer.bos_id)
        return ids
