#!/usr/bin/env python3
"""Writes small tokenizers and token ids by Hugging Face's tokenizers: tokenizer_cases.py FOLDER [--seed N] [--texts N]

Each tokenizer is trained on a part of examples/data/vitrine_source.txt and on some lines of other scripts. cases.json
has texts, with the ids and the decoded text that are expected of each tokenizer. Needs tokenizers from PyPI.
"""
import argparse
import json
import pathlib
import random
import unicodedata

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPTS = ("日本語の文章です。漢字とかな。 Привет, мир! مرحبا بالعالم 😀👩‍👩‍👧 naïve café e\u0301 ﬁve ① İstanbul ΣΊΣΥΦΟΣ "
           "Straße don't we'll I'VE 1234567 3.14\n")
LLAMA = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
         r"|\s+(?!\S)|\s+")
WORDS = ["don't", "we'll", "I'VE", "hello", "Hello", "naïve", "e\u0301", "漢", "字", "ﬁ", "Σ", "ΑΣ", "İ", "ß", "😀", "12345",
         "1²", ".", " ,", "!", "(x)", "a_b", "\t", "\n", "\r\n", " ", "  ", "\u00a0", "\u2028", "\u180e", "\u200d", "\x00",
         "\ufffd", "[MASK]", "[CLS]", "<|end|>", "<mask>", "New Word", "x" * 130]


def byte_level(**options):
    tokenizer = Tokenizer(models.BPE(**options))
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer, trainers.BpeTrainer(vocab_size=600, special_tokens=["<|end|>"], show_progress=False,
                                          initial_alphabet=pre_tokenizers.ByteLevel.alphabet())


def gpt2():
    tokenizer, trainer = byte_level()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return tokenizer, trainer


def normalized():
    tokenizer, trainer = byte_level()
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    return tokenizer, trainer


def llama():
    tokenizer, trainer = byte_level(ignore_merges=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(LLAMA), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<|end|> $A", pair="<|end|> $A $B:1", special_tokens=[("<|end|>", 0)])
    return tokenizer, trainer


def bert():
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return tokenizer, trainers.WordPieceTrainer(vocab_size=600, show_progress=False,
                                                special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])


def words():
    tokenizer = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents()])
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return tokenizer, trainers.WordLevelTrainer(vocab_size=600, special_tokens=["[UNK]"], show_progress=False)


def is_old(character):
    """Whether Unicode 3.2 has the character: of a newer one, libraries may know other properties."""
    return unicodedata.ucd_3_2_0.category(character) not in ("Cn", "Cs")


def draw(rng, corpus):
    kind = rng.randrange(3)
    if kind == 0:
        begin = rng.randrange(len(corpus))
        return corpus[begin:begin + rng.randrange(80)]
    if kind == 1:
        return "".join(filter(is_old, (chr(rng.randrange(rng.choice([0x80, 0x3000, 0x30000]))) for _ in range(20))))
    return "".join(rng.choice(WORDS) + rng.choice(["", "", " "]) for _ in range(rng.randrange(12)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--texts", type=int, default=60, help="texts for each tokenizer")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(arguments.seed)
    corpus = (ROOT / "examples/data/vitrine_source.txt").read_text(encoding="utf-8")[:60000] + 20 * SCRIPTS
    cases = []
    for make in (gpt2, normalized, llama, bert, words):
        tokenizer, trainer = make()
        tokenizer.train_from_iterator([corpus], trainer)
        tokenizer.add_tokens([AddedToken("New Word", normalized=False),
                              AddedToken("<mask>", lstrip=True, rstrip=True, special=True)])
        tokenizer.save(str(arguments.folder / f"{make.__name__}.json"), pretty=False)
        texts = ["", " ", "New Word <mask> a<|end|>", *WORDS, *(draw(rng, corpus) for _ in range(arguments.texts))]
        for i, text in enumerate(texts):
            tokenizer.encode_special_tokens = special_as_text = i % 3 == 0
            ids = tokenizer.encode(text, add_special_tokens=False).ids
            cases.append({"tokenizer": make.__name__, "text": text, "special_as_text": special_as_text, "ids": ids,
                          "with_ends": tokenizer.encode(text).ids,
                          "decoded": tokenizer.decode(ids, skip_special_tokens=False)})
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
    (arguments.folder / "cases.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    print(f"{len(cases)} cases in {arguments.folder}, by tokenizers {tokenizers.__version__}")


main()
