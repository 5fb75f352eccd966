"""What special tokens are called, where a vocabulary does not say what they are for.

A table of facts about published vocabularies; what follows from them is for `vocabulary`.
Source: the vocabularies themselves, as llama.cpp's loader groups them.
"""

from __future__ import annotations

# They end a turn.
END = frozenset(
    {
        "<|eot_id|>",  # Llama 3
        "<|eom_id|>",
        "<|end_of_text|>",
        "<|im_end|>",  # ChatML
        "<|im:end|>",
        "<|endoftext|>",  # GPT-2
        "</s>",  # SentencePiece
        "<|end|>",  # Phi, harmony
        "<|return|>",
        "<|call|>",
        "<|calls|>",  # Solar
        "<|flush|>",
        "<eos>",  # Gemma
        "<end_of_turn>",
        "<turn|>",
        "<|tool_response>",
        "<EOT>",
        "_<EOT>",
        "[EOT]",  # Kimi
        "[EOS]",
        "<end_of_utterance>",
        "<｜end▁of▁sentence｜>",  # DeepSeek
        "[e~[",  # MiniMax
    }
)

# Fill in the middle: they begin another file, and nothing of the answer follows them.
FILE_END = frozenset(
    {
        "<|fim_pad|>",
        "<fim-pad>",
        "<fim_pad>",
        "<PAD>",
        "[PAD]",
        "<|fim_repo|>",
        "<|repo_name|>",
        "<fim-repo>",
        "<REPO>",
        "<reponame>",
        "<|file_sep|>",
    }
)

# Fill in the middle: prefix, suffix and middle.
FILL_IN = frozenset(
    {
        "<|fim_prefix|>",
        "<|fim_suffix|>",
        "<|fim_middle|>",
        "<fim-prefix>",
        "<fim-suffix>",
        "<fim-middle>",
        "<fim_prefix>",
        "<fim_suffix>",
        "<fim_middle>",
        "<｜fim▁begin｜>",
        "<｜fim▁hole｜>",
        "<｜fim▁end｜>",
        "<PRE>",
        "<SUF>",
        "<MID>",
        "▁<PRE>",
        "▁<SUF>",
        "▁<MID>",
        "<|code_prefix|>",
        "<|code_suffix|>",
        "<|code_middle|>",
        "<|prefix|>",
        "<|suffix|>",
        "<|middle|>",
    }
)

# The harmony format's marks, which are part of what the model says.
HARMONY = frozenset({"<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"})
