#!/usr/bin/env python3
"""Writes random cases of text metrics that sacrebleu and jiwer have computed: text_metrics.py FOLDER [--seed N] [--rounds N]

The folder gets a subfolder `text_metrics` with a file cases.json, in the format that tests/data/text_metrics/README.md
describes, so that `VITRINE_DATA=FOLDER vitrine_tests --source-file=*/tests/nn/metrics/text_metrics_test.cpp` holds this library
to them. Needs sacrebleu and jiwer from PyPI.
"""
import argparse
import json
import pathlib
import random

import jiwer
import sacrebleu
from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

WORDS = """the a dog cat runs sees house (quickly) "never" don't o'clock 3.14 1,234.50 10-20 -5 e.g. U.S. état naïve größer Straße
мир труд 東京 日本語 한국어 𝒳 👩‍🚀 e\u0301 ﬁn ¿qué? «bon» – … &amp; &lt;b&gt; &quot; x_y [1] a/b 50% \u0023 @you ~ ` ^ } .5 5. ,5 5, ., -- 7- 2-.""".split()
SPACES = [" "] * 20 + ["  ", "\u00a0", "\u3000", "\t", "\n", "-\n", "<skipped>", "\x1f", "\u2009"]


def sentence(rng, words, spaces=SPACES):
    return "".join(word + rng.choice(spaces) for word in words)[:-1] + rng.choice(["", "", ".", "!", " .", "-\n", " \u00a0"])


def corrupted(rng, words):
    """Words with some of them dropped, doubled, replaced or exchanged."""
    kept = []
    for word in words:
        kept += rng.choice([[word]] * 8 + [[], [word, word], [rng.choice(WORDS)], [word[::-1]], [word.upper()]])
    if len(kept) > 1 and rng.random() < 0.5:
        i = rng.randrange(len(kept) - 1)
        kept[i], kept[i + 1] = kept[i + 1], kept[i]
    return kept if rng.random() < 0.9 else []


def corpus(rng, streams, spaces=SPACES):
    """Hypotheses, and `streams` lists of references. Some of either are empty."""
    hypotheses, references = [], [[] for _ in range(streams)]
    for _ in range(rng.randrange(1, 6)):
        words = [rng.choice(WORDS) for _ in range(rng.choice([0, 1, 2, 4, 7, 12]))]
        hypotheses.append(sentence(rng, corrupted(rng, words), spaces))
        for stream in references:
            stream.append(sentence(rng, corrupted(rng, words) if streams > 1 else words, spaces))
    return hypotheses, references


def bleu_case(rng):
    hypotheses, references = corpus(rng, rng.randrange(1, 4))
    tokenize, smooth = rng.choice(["13a", "none"]), rng.choice(["exp", "floor", "none"])
    score = BLEU(tokenize=tokenize, smooth_method=smooth, force=True).corpus_score(hypotheses, references)
    return {"hypotheses": hypotheses, "references": references, "tokenize": tokenize, "smooth": smooth, "score": score.score,
            "counts": score.counts, "totals": score.totals, "precisions": score.precisions, "brevity_penalty": score.bp,
            "hypothesis_length": score.sys_len, "reference_length": score.ref_len}


def chrf_case(rng):
    hypotheses, references = corpus(rng, rng.randrange(1, 4))
    options = {"word_order": rng.choice([0, 2]), "char_order": rng.choice([6, 6, 3]), "beta": rng.choice([2, 2, 1, 3])}
    return {"hypotheses": hypotheses, "references": references, **options,
            "score": CHRF(**options).corpus_score(hypotheses, references).score}


def rate_case(rng, process, name):
    # jiwer takes one tab or no-break space for a part of a word
    hypotheses, references = corpus(rng, 1, [" "] * 5 + ["  ", " \t "])
    references = references[0]
    result = process(references, hypotheses)
    edits = result.substitutions + result.insertions + result.deletions
    return {"hypotheses": hypotheses, "references": references, "errors": edits,
            "reference_length": result.hits + result.substitutions + result.deletions, "rate": getattr(result, name)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=10, help="cases of each kind")
    arguments = parser.parse_args()
    folder = arguments.folder / "text_metrics"
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(arguments.seed)
    kinds = {"bleu": bleu_case, "chrf": chrf_case, "wer": lambda r: rate_case(r, jiwer.process_words, "wer"),
             "cer": lambda r: rate_case(r, jiwer.process_characters, "cer")}
    cases = {kind: [draw(rng) for _ in range(arguments.rounds)] for kind, draw in kinds.items()}
    texts = [sentence(rng, [rng.choice(WORDS) for _ in range(8)]) for _ in range(arguments.rounds)]
    cases["tokens_13a"] = [{"text": text, "tokens": Tokenizer13a()(text.rstrip()).split()} for text in texts]
    # An object a line, so that a difference of two files can be read
    lines = [f'"{kind}": [\n' + ",\n".join(json.dumps(c, ensure_ascii=False) for c in all) + "\n]" for kind, all in cases.items()]
    (folder / "cases.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{sum(map(len, cases.values()))} cases in {folder}, by sacrebleu {sacrebleu.__version__} and jiwer {jiwer_version()}")


def jiwer_version():
    from importlib.metadata import version
    return version("jiwer")


main()
