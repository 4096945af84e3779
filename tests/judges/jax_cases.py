#!/usr/bin/env python3
"""Writes random cases whose outputs and gradients JAX has computed: jax_cases.py FOLDER [--seed N] [--rounds N]

The folder gets a subfolder `truth_cases`, in the format that tests/data/truth_cases/README.md describes, so that
`VITRINE_DATA=FOLDER vitrine_tests --source-file=*/tests/nn/truth_cases_test.cpp` holds this library to JAX. Needs jax and
safetensors from PyPI.
"""
import argparse
import json
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
from safetensors.numpy import save_file

jax.config.update("jax_enable_x64", True)
HIDDEN = -np.inf


def visible(n, m, causal=False, window=None):
    """Which keys a query sees: the last query is at the last key."""
    distance = np.arange(m)[None, :] - (np.arange(n)[:, None] + m - n)
    seen = np.ones((n, m), bool)
    if causal:
        seen &= distance <= 0
    if window:
        seen &= (distance >= -window[0]) & (distance <= window[1])
    return seen


def log_weights(x, params):
    """log softmax of the scores, -inf where a key is hidden; keys have as many heads as queries have."""
    q, k = x["q"], x["k"]
    scores = jnp.einsum("bhnd,bhmd->bhnm", q, k) * params.get("scale", q.shape[-1] ** -0.5)
    if "softcap" in params:
        scores = params["softcap"] * jnp.tanh(scores / params["softcap"])
    if "bias" in x:
        scores = scores + x["bias"]
    seen = visible(q.shape[-2], k.shape[-2], params.get("causal", False), params.get("window"))
    if "mask" in x:
        seen = seen & x["mask"]
    return jax.nn.log_softmax(jnp.where(seen, scores, HIDDEN), axis=-1)


def with_all_heads(x):
    times = x["q"].shape[1] // x["k"].shape[1]
    return {**x, "k": jnp.repeat(x["k"], times, 1), "v": jnp.repeat(x["v"], times, 1)}


def attention(x, params):
    x = with_all_heads(x)
    return jnp.exp(log_weights(x, params)) @ x["v"]


def laser(x, params):
    """log of the weighted mean of exp(v), for each channel alone."""
    x = with_all_heads(x)
    terms = log_weights(x, params)[..., None] + x["v"][:, :, None]
    return jax.nn.logsumexp(terms, axis=-2)


def multi_head(x, params):
    def heads(y):
        return y.reshape(*y.shape[:2], params["heads"], -1).transpose(0, 2, 1, 3)

    source = x.get("ctx", x["x"])
    parts = {"q": heads(x["x"] @ x["wq"].T + x["bq"]), "k": heads(source @ x["wk"].T + x["bk"]),
             "v": heads(source @ x["wv"].T + x["bv"])}
    o = (laser if params["laser"] else attention)(parts, params)
    return o.transpose(0, 2, 1, 3).reshape(x["x"].shape) @ x["wo"].T + x["bo"]


def cross_entropy(x, params):
    logs = jax.nn.log_softmax(x["logits"], -1)
    s, kept = params["smoothing"], x["target"] != params["ignore_index"]
    picked = jnp.take_along_axis(logs, jnp.where(kept, x["target"], 0)[:, None], 1)[:, 0]
    return jnp.sum(jnp.where(kept, -(1 - s) * picked - s * logs.mean(-1), 0)) / jnp.sum(kept)


def layer_norm(x, params):
    return jax.nn.standardize(x["x"], epsilon=params["eps"]) * x["gamma"] + x["beta"]


def rms_norm(x, params):
    return x["x"] * jax.lax.rsqrt(jnp.mean(x["x"] ** 2, -1, keepdims=True) + params["eps"]) * x["gamma"]


ACTIVATIONS = {"gelu_erf": lambda x: jax.nn.gelu(x, approximate=False), "gelu_tanh": jax.nn.gelu, "silu": jax.nn.silu,
               "elu_plus_one": lambda x: jax.nn.elu(x) + 1}
OPS = {
    "attention": attention,
    "laser": laser,
    "multi_head_attention": multi_head,
    "cross_entropy": cross_entropy,
    "layer_norm": layer_norm,
    "rms_norm": rms_norm,
    "activation": lambda x, p: ACTIVATIONS[p["kind"]](x["x"]),
    "swiglu": lambda x, p: (jax.nn.silu(x["x"] @ x["w"]) * (x["x"] @ x["v"])) @ x["w2"],
    "ffn_relu": lambda x, p: jax.nn.relu(x["x"] @ x["w1"] + x["b1"]) @ x["w2"] + x["b2"],
}


def draw(rng):
    """One case of each kind: op, params and inputs."""
    size = lambda low, high: int(rng.integers(low, high + 1))
    normal = lambda *shape, std=1.0: rng.normal(0, std, shape)
    for op in ("attention", "laser"):
        kv, times, n, d = size(1, 2), size(1, 3), size(1, 9), size(1, 8)
        m = n + size(0, 5)
        params = {}
        x = {"q": normal(2, kv * times, n, d), "k": normal(2, kv, m, d),
             "v": normal(2, kv, m, size(1, 6), std=rng.choice([0.05, 1, 5]))}
        if rng.random() < 0.5:
            params["causal"] = True
        if rng.random() < 0.3:
            params["scale"] = float(rng.uniform(0.1, 2))
        if rng.random() < 0.3:
            params["window"] = [size(0, m), size(0, m)]
        if op == "attention" and rng.random() < 0.3:
            params["softcap"] = float(rng.uniform(1, 20))
        if rng.random() < 0.4:
            x["bias"] = normal(1, kv * times, n, m)
        if rng.random() < 0.4:
            x["mask"] = rng.random((2, 1, n, m)) < 0.7
            x["mask"] |= np.eye(n, m, m - n, dtype=bool)  # each query sees the key at its own place
        yield op, params, x
    heads, c = size(1, 3), 4 * size(1, 2)
    x = {"x": normal(2, size(1, 6), heads * c), "ctx": normal(2, size(1, 6), heads * c)}
    for w in "qkvo":
        x["w" + w], x["b" + w] = normal(heads * c, heads * c, std=0.4), normal(heads * c)
    params = {"heads": heads, "laser": bool(rng.random() < 0.5)}
    if rng.random() < 0.5:
        del x["ctx"]
        params["causal"] = True
    yield "multi_head_attention", params, x
    rows, classes = size(1, 6), size(2, 9)
    target = rng.integers(0, classes, rows)
    target[1:][rng.random(rows - 1) < 0.3] = -100
    yield "cross_entropy", {"smoothing": float(rng.choice([0, 0.1])), "ignore_index": -100}, {
        "logits": normal(rows, classes, std=rng.choice([1, 30])), "target": target}
    shape = (size(1, 3), size(1, 4), size(2, 9))
    yield "layer_norm", {"eps": 1e-5}, {"x": normal(*shape), "gamma": normal(shape[-1]), "beta": normal(shape[-1])}
    yield "rms_norm", {"eps": 1e-6}, {"x": normal(*shape), "gamma": normal(shape[-1])}
    for kind in ACTIVATIONS:
        yield "activation", {"kind": kind}, {"x": normal(*shape, std=3)}
    inner = size(1, 9)
    yield "swiglu", {}, {"x": normal(*shape), "w": normal(shape[-1], inner), "v": normal(shape[-1], inner),
                         "w2": normal(inner, shape[-1])}
    yield "ffn_relu", {}, {"x": normal(*shape), "w1": normal(shape[-1], inner), "b1": normal(inner),
                           "w2": normal(inner, shape[-1]), "b2": normal(shape[-1])}


def evaluate(op, params, x, cotangent, dtype):
    """The output, and the gradients of sum(cotangent * output), computed in `dtype`."""
    cast = lambda a: jnp.asarray(a, dtype) if a.dtype == np.float64 else jnp.asarray(a)
    floating = {k: cast(v) for k, v in x.items() if v.dtype == np.float64}
    others = {k: cast(v) for k, v in x.items() if v.dtype != np.float64}
    o, pull = jax.vjp(lambda f: OPS[op]({**f, **others}, params), floating)
    cotangent = np.asarray(np.ones(o.shape) if cotangent is None else cotangent)
    return np.asarray(o, np.float64), {k: np.asarray(g, np.float64) for k, g in pull(cast(cotangent))[0].items()}


def distance(got, want, floor):
    return float(np.max(np.abs(got - want), initial=0) / max(np.max(np.abs(want), initial=0), floor))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=10, help="cases of each kind")
    arguments = parser.parse_args()
    folder = arguments.folder / "truth_cases"
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(arguments.seed)
    cases = []
    for round in range(arguments.rounds):
        for op, params, x in draw(rng):
            name = f"{op}_{params['kind']}_{round}" if op == "activation" else f"{op}_{round}"
            shape = evaluate(op, params, x, None, jnp.float64)[0].shape
            cotangent = rng.normal(size=shape)
            o, gradients = evaluate(op, params, x, cotangent, jnp.float64)
            rounded = {k: v.astype(np.float32).astype(np.float64) if v.dtype == np.float64 else v for k, v in x.items()}
            exact, low = (evaluate(op, params, rounded, cotangent, t) for t in (jnp.float64, jnp.float32))
            drift = {"output": distance(low[0], exact[0], 1e-3),
                     "gradient": max(distance(low[1][k], exact[1][k], 0.1) for k in gradients)}
            tensors = {**{f"in.{k}": v for k, v in x.items()}, "out.o": o, "cot.o": cotangent,
                       **{f"grad.{k}": g for k, g in gradients.items()}}
            save_file({k: np.ascontiguousarray(v) for k, v in tensors.items()}, folder / f"{name}.safetensors")
            cases.append({"name": name, "file": f"{name}.safetensors", "op": op, "params": params, "inputs": list(x),
                          "outputs": ["o"], "gradients": list(gradients), "float32_drift": drift})
    (folder / "manifest.json").write_text(json.dumps({"cases": cases}, indent=1))
    print(f"{len(cases)} cases in {folder}, by JAX {jax.__version__}")


main()
