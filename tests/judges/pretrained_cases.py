#!/usr/bin/env python3
"""Pretrained models by transformers: pretrained_cases.py make FOLDER [--seed N], or pretrained_cases.py judge FOLDER

make writes a folder for each small random model, as transformers saves it, with expected.safetensors: inputs, logits and
the text that greedy decoding with a cache continues. judge loads the folders that Vitrine has saved, each with the
inputs and the logits of Vitrine in expected.safetensors, and compares. Needs torch, transformers and tokenizers from PyPI.
"""
import argparse
import json
import pathlib
import random
import sys

import tokenizers
import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

ROOT = pathlib.Path(__file__).resolve().parents[2]
COUNT = 8  # tokens that greedy decoding adds
TOLERANCE = 1e-5

CAUSAL = {"gpt2", "llama"}
CLASSES = {"GPT2LMHeadModel": transformers.GPT2LMHeadModel, "LlamaForCausalLM": transformers.LlamaForCausalLM,
           "BertForMaskedLM": transformers.BertForMaskedLM, "BertForPreTraining": transformers.BertForPreTraining,
           "BertForSequenceClassification": transformers.BertForSequenceClassification, "BertModel": transformers.BertModel,
           "ViTForImageClassification": transformers.ViTForImageClassification}


def tokenizer(vocabulary):
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    text = (ROOT / "examples/data/vitrine_source.txt").read_text()[:20000]
    made.train_from_iterator([text], trainers.BpeTrainer(vocab_size=vocabulary, special_tokens=["<|end|>"], show_progress=False,
                                                         initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return made


def configurations(rng):
    """Name: (class, configuration, how it is saved)."""
    heads, size = rng.choice([2, 4]), rng.choice([4, 6, 8])
    width, layers, hidden = heads * size, rng.randint(1, 3), rng.choice([20, 24])
    ends = {"bos_token_id": 0, "eos_token_id": 0}
    gpt2 = {"vocab_size": 280, "n_positions": 32, "n_embd": width, "n_layer": layers, "n_head": heads, **ends}
    llama = {"vocab_size": 280, "max_position_embeddings": 40, "hidden_size": width, "num_hidden_layers": layers,
             "num_attention_heads": heads, "intermediate_size": hidden, **ends}
    bert = {"vocab_size": 50, "max_position_embeddings": 16, "hidden_size": width, "num_hidden_layers": layers,
            "num_attention_heads": heads, "intermediate_size": hidden, "type_vocab_size": 3, "pad_token_id": 0}
    vit = {"image_size": 12, "patch_size": 4, "num_channels": 3, "hidden_size": width, "num_hidden_layers": layers,
           "num_attention_heads": heads, "intermediate_size": hidden}
    label = {"id2label": {i: f"LABEL_{i}" for i in range(5)}, "label2id": {f"LABEL_{i}": i for i in range(5)}}
    return {
        "gpt2": ("GPT2LMHeadModel", transformers.GPT2Config(**gpt2), {}),
        "gpt2_untied": ("GPT2LMHeadModel", transformers.GPT2Config(
            **gpt2, n_inner=hidden, activation_function="gelu", layer_norm_epsilon=1e-3, tie_word_embeddings=False),
            {"max_shard_size": "20KB"}),
        "llama": ("LlamaForCausalLM", transformers.LlamaConfig(
            **llama, num_key_value_heads=heads // 2, rms_norm_eps=1e-4,
            rope_parameters={"rope_theta": 500.0, "rope_type": "default"}), {"max_shard_size": "20KB"}),
        "llama_tied": ("LlamaForCausalLM", transformers.LlamaConfig(
            **llama, tie_word_embeddings=True, attention_bias=True, mlp_bias=True), {"dtype": torch.bfloat16}),
        "bert": ("BertForMaskedLM", transformers.BertConfig(**bert), {"dtype": torch.float16}),
        "bert_pretraining": ("BertForPreTraining", transformers.BertConfig(**bert, hidden_act="relu"), {}),
        "bert_classes": ("BertForSequenceClassification", transformers.BertConfig(**bert, **label), {}),
        "bert_body": ("BertModel", transformers.BertConfig(**bert, layer_norm_eps=1e-3), {}),
        "vit": ("ViTForImageClassification", transformers.ViTConfig(**vit, **label), {}),
        "vit_plain": ("ViTForImageClassification", transformers.ViTConfig(**vit, qkv_bias=False, hidden_act="gelu_new"), {}),
    }


def inputs(config, generator):
    if config.model_type == "vit":
        return {"images": torch.randn(2, config.num_channels, config.image_size, config.image_size, generator=generator)}
    time = 7 if config.model_type in CAUSAL else 11
    ids = torch.randint(1, config.vocab_size, (2, time), generator=generator)
    if config.model_type == "bert":
        return {"ids": ids, "segments": torch.randint(0, config.type_vocab_size, (2, 11), generator=generator),
                "lengths": torch.tensor([11, 7])}
    return {"ids": ids}


@torch.no_grad()
def outputs(model, given):
    """What the model computes of these inputs, by the names of expected.safetensors."""
    if "images" in given:
        return {"logits": model(given["images"]).logits}
    if "lengths" not in given:
        text = model.generate(given["ids"][:1, :4], max_new_tokens=COUNT, min_new_tokens=COUNT, do_sample=False, use_cache=True,
                              pad_token_id=0, eos_token_id=None)
        return {"logits": model(given["ids"]).logits, "text": text}
    mask = (torch.arange(given["ids"].shape[1]) < given["lengths"][:, None]).long()
    result = model(given["ids"], attention_mask=mask, token_type_ids=given["segments"])
    names = {"logits": "logits", "prediction_logits": "logits", "seq_relationship_logits": "classes", "pooler_output": "pooled",
             "last_hidden_state": "features"}
    found = {ours: result[theirs] for theirs, ours in names.items() if result.get(theirs) is not None}
    if isinstance(model, transformers.BertForSequenceClassification):
        found["classes"] = found.pop("logits")
    for name in ("logits", "features"):  # what a model computes at padding means nothing
        if name in found:
            found[name] = found[name] * mask[..., None]
    return found


def make(folder, seed):
    rng = random.Random(seed)
    generator = torch.Generator().manual_seed(seed)
    for name, (kind, config, how) in configurations(rng).items():
        model = CLASSES[kind](config).eval()
        with torch.no_grad():
            for path, parameter in model.named_parameters():
                noise = torch.randn(parameter.shape, generator=generator)
                gain = parameter.ndim == 1 and path.endswith("weight")
                parameter.copy_(1 + 0.2 * noise if gain else 0.25 * noise)
        if "dtype" in how:
            model = model.to(how["dtype"])
        to = pathlib.Path(folder, name)
        model.save_pretrained(to, **({"max_shard_size": how["max_shard_size"]} if "max_shard_size" in how else {}))
        (to / "generation_config.json").unlink(missing_ok=True)
        if config.model_type in CAUSAL:
            tokenizer(config.vocab_size).save(str(to / "tokenizer.json"))
        given = inputs(config, generator)
        loaded = CLASSES[kind].from_pretrained(to, dtype=torch.float32, attn_implementation="eager").eval()
        found = {k: v.contiguous() for k, v in {**given, **outputs(loaded, given)}.items()}
        save_file(found, to / "expected.safetensors")


def judge(folder):
    worst, wrong, seen = 0, [], 0
    for path in sorted(pathlib.Path(folder).iterdir()):
        config = json.loads((path / "config.json").read_text())
        kind = CLASSES[config["architectures"][0]]
        model, report = kind.from_pretrained(path, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
        expected = load_file(path / "expected.safetensors")
        for trouble in ("missing_keys", "unexpected_keys", "mismatched_keys"):
            if report[trouble]:
                wrong.append(f"{path.name}: {trouble} {sorted(report[trouble])}")
        found = outputs(model.eval(), expected)
        for name, value in found.items():
            seen += 1
            if name not in expected or expected[name].shape != value.shape:
                wrong.append(f"{path.name}: {name} is {tuple(value.shape)}, Vitrine's is {expected.get(name, torch.empty(0)).shape}")
            elif name == "text":
                if not torch.equal(value, expected[name]):
                    wrong.append(f"{path.name}: the text is {value.tolist()}, Vitrine's is {expected[name].tolist()}")
            else:
                difference = ((value - expected[name]).abs().max() / value.abs().max().clamp(min=1)).item()
                worst = max(worst, difference)
                if not difference <= TOLERANCE:
                    wrong.append(f"{path.name}: {name} differs by {difference}")
    print(f"{seen} results of models that Vitrine has saved; the largest difference is {worst:.2g}")
    if wrong or seen < 10:
        sys.exit("\n".join(wrong) or "there are too few")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["make", "judge"])
    parser.add_argument("folder")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    if arguments.what == "judge":
        return judge(arguments.folder)
    make(arguments.folder, arguments.seed)


if __name__ == "__main__":
    main()
