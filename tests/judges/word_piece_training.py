#!/usr/bin/env python3
"""Writes the word pieces that Hugging Face's tokenizers learn: word_piece_training.py FILE [SIZE]

The text is the beginning of examples/data/vitrine_source.txt. WordPieceTrainer is its BpeTrainer
with the prefix ##, and does not keep the merges, so the BpeTrainer is asked. Which of equally
frequent pairs it merges depends on the order of a hash table, so the test compares counts. Needs
tokenizers from PyPI.
"""
import json
import pathlib
import sys

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHARACTERS = 20000
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]

text = (ROOT / "examples/data/vitrine_source.txt").read_text(encoding="utf-8")[:CHARACTERS]
size = int(sys.argv[2]) if len(sys.argv) > 2 else 400
tokenizer = Tokenizer(models.BPE(continuing_subword_prefix="##"))
tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
tokenizer.train_from_iterator([text], trainers.BpeTrainer(vocab_size=size, special_tokens=SPECIAL, show_progress=False,
                                                          continuing_subword_prefix="##"))
model = json.loads(tokenizer.to_str())["model"]
merges = [merge if isinstance(merge, list) else merge.split(" ") for merge in model["merges"]]
tokens = sorted(model["vocab"], key=model["vocab"].get)
single = sorted(t for t in tokens if t not in SPECIAL and len(t.removeprefix("##")) == 1)
pathlib.Path(sys.argv[1]).write_text(
    json.dumps({"characters": CHARACTERS, "vocabulary": len(tokens), "single": single, "merges": merges}) + "\n")
print(f"{len(tokens)} tokens, {len(merges)} merges")
