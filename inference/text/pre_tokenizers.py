"""How byte-level BPE vocabularies cut text into words, by the names of `tokenizer.ggml.pre`.

A table of facts about published tokenizers, and nothing else: merging words is for `byte_level`.
Each pattern cuts every piece the one before left into matches and the gaps between them.
Source: the tokenizer.json files of the models named, as llama.cpp's vocabulary loader spells them.
"""

from __future__ import annotations

from dataclasses import dataclass

from inference.text.errors import TextError


@dataclass(frozen=True)
class PreTokenizer:
    """whole_words: a word that is itself a token is taken as it is, without merging.

    add_bos: whether text begins with the bos token unless the model file says otherwise.
    """

    patterns: tuple[str, ...]
    whole_words: bool = False
    add_bos: bool = False


_CONTRACTION = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"


def _cl100k(digits: str) -> str:
    """The pattern of OpenAI's cl100k and its descendants, which differ in how digits are grouped."""
    return (
        rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|{digits}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    )


def _o200k(suffix: str, digits: str) -> str:
    """The pattern of OpenAI's o200k and Mistral's tekken: words are also cut where case changes."""
    upper, lower = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
    before = r"[^\r\n\p{L}\p{N}]?"
    return (
        rf"{before}{upper}*{lower}+{suffix}|{before}{upper}+{lower}*{suffix}|{digits}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    )


_DEFAULT = PreTokenizer((r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", r"[0-9][0-9][0-9]"))
_GPT2_WORDS = PreTokenizer((_GPT2,))
_SINGLE_DIGITS = PreTokenizer((r"\p{N}", _GPT2))
_CL100K = PreTokenizer((_cl100k(r"\p{N}{1,3}"),))
_LLAMA3 = PreTokenizer(_CL100K.patterns, whole_words=True, add_bos=True)
_QWEN2 = PreTokenizer((_cl100k(r"\p{N}"),))
_QWEN35 = PreTokenizer(
    (
        rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}"
        r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    )
)
_O200K = PreTokenizer((_o200k(_CONTRACTION + "?", r"\p{N}{1,3}"),))
_TEKKEN = PreTokenizer((_o200k("", r"\p{N}"),), whole_words=True, add_bos=True)
_CASED_LETTERS = (
    "A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅ"
    "Ὀ-Ὅὐ-ὗὙὛὝὟ-\u1f7dᾀ-ᾴᾶ-ᾼ\u1fbeῂ-ῄῆ-ῌῐ-\u1fd3ῖ-\u1fdbῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ\u2126ℨ\u212a-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄ"
    "Ⰰ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃"
)
_CJK = "[一-龥ࠀ-一가-\ud7ff]+"
_DEEPSEEK_LLM = PreTokenizer(
    (
        r"[\r\n]",
        rf"\s?[{_CASED_LETTERS}]+",
        r"\s?[!-/:-~！-／：-～‘-‟　-。]+",
        r"\s+$",
        _CJK,
        r"\p{N}+",
    )
)
_DEEPSEEK_CODER = PreTokenizer((r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _CJK, r"\p{N}"))
_DEEPSEEK_V3 = PreTokenizer(
    (
        r"\p{N}{1,3}",
        "[一-龥぀-ゟ゠-ヿ]+",
        r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
        r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    )
)
_FALCON = PreTokenizer((r"[\p{P}\$\+<=>\^~\|`]+", _GPT2, r"[0-9][0-9][0-9]"))
_BLOOM = PreTokenizer((r" ?[^(\s|.,!?…。，、।۔،)]+",))
_VIKING = PreTokenizer((*_BLOOM.patterns, r"\p{N}"))
_MINICPM5 = PreTokenizer((r"\p{N}{1,3}", _cl100k(r"\p{N}+")), whole_words=True)
_SEED_CODER = PreTokenizer(
    (
        rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}"
        r"| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+",
    )
)
_BAILING = PreTokenizer(
    (
        r"'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
    )
)

_BY_NAMES: dict[str, PreTokenizer] = {
    "default": _DEFAULT,
    "llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2": _LLAMA3,
    "dbrx smaug-bpe glm4 chatglm-bpe": _CL100K,
    "minicpm5": _MINICPM5,
    "deepseek-llm": _DEEPSEEK_LLM,
    "deepseek-coder": _DEEPSEEK_CODER,
    "deepseek-v3 hunyuan-dense joyai-llm": _DEEPSEEK_V3,
    "falcon": _FALCON,
    "starcoder refact command-r smollm codeshell exaone minerva-7b mellum2": _SINGLE_DIGITS,
    "gpt-2 phi-2 mpt olmo jais trillion granite-docling gigachat a.x-4.0 mellum exaone4": _GPT2_WORDS,
    "qwen2 deepseek-r1-qwen kormo f2llmv2 megrez stablelm2 hunyuan solar-open grok-2": _QWEN2,
    "qwen35": _QWEN35,
    "poro-chat bloom gpt3-finnish": _BLOOM,
    "viking": _VIKING,
    "tekken": _TEKKEN,
    "gpt-4o llama4 kanana2 minimax-m2": _O200K,
    "bailingmoe bailingmoe2 llada-moe": _BAILING,
    "seed-coder": _SEED_CODER,
}
PRE_TOKENIZERS = {name: pre for names, pre in _BY_NAMES.items() for name in names.split()}


def pre_tokenizer(name: str) -> PreTokenizer:
    """Raises: TextError for a name that is not in the table; guessing would garble every prompt."""
    if name not in PRE_TOKENIZERS:
        raise TextError("tokenizer.ggml.pre", f"the pre-tokenizer '{name}' is not supported")
    return PRE_TOKENIZERS[name]
