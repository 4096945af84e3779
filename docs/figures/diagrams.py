"""Draws the diagrams of the pages, which show how the parts of Vitrine work together."""
from svg import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, Picture


def folders():
    picture = Picture(760, 330, "Which folder may include which")
    boxes = {"core": (280, 260, 200, GREY, "tensors, tape, checks"),
             "ops": (280, 180, 200, BLUE, "operations, CPU kernels"),
             "cuda": (550, 180, 180, GREEN, "CUDA twins, emulator"),
             "optim": (30, 180, 180, PURPLE, "optimizers, schedules"),
             "nn": (280, 100, 200, ORANGE, "modules, attention, models"),
             "nn/training": (280, 20, 200, ORANGE, "trainer, tasks")}
    picture.arrow((380, 232), (380, 258))
    picture.arrow((380, 152), (380, 178))
    picture.arrow((380, 72), (380, 98))
    picture.arrow((210, 206), (278, 206))
    picture.arrow((120, 232), (120, 286), (278, 286))
    picture.arrow((550, 206), (482, 206), dashed=True)
    picture.arrow((640, 232), (640, 286), (482, 286))
    picture.arrow((278, 46), (120, 46), (120, 178))
    for name, (x, y, width, color, words) in boxes.items():
        picture.box(x, y, width, 52, (name, words), color, size=14)
    picture.text(516, 198, "contracts", 11, GREY)
    picture.text(595, 60, "An arrow: the folder may include", 12, GREY)
    picture.text(595, 78, "the folder to which it points.", 12, GREY)
    return picture


def tensor():
    picture = Picture(760, 345, "Three tensors that share one storage")
    cell, left, top = 46, 100, 236
    for i in range(12):
        picture.box(left + i * cell, top, cell, 36, f"{i}", BLUE if 4 <= i < 8 else GREY, mono=True)
    picture.text(left, top + 60, "storage: 12 float32 numbers, 64-byte aligned, and a counter of its writes", 13, GREY, "start")
    views = ((40, "x", "[3, 4]", "strides (4, 1)", "offset 0"), (290, "transpose(x)", "[4, 3]", "strides (1, 4)", "offset 0"),
             (540, "select(x, 0, 1)", "[4]", "strides (1)", "offset 4"))
    for x, name, shape, strides, offset in views:
        color = BLUE if "select" in name else GREY
        picture.box(x, 30, 190, 112, (name, f"shape {shape}", strides, offset, "float32, cpu"), color, size=14)
        target = left + (6 * cell if color == BLUE else (1 if x < 100 else 4) * cell)
        picture.arrow((x + 95, 142), (target, top - 4), color=color)
    picture.text(left, top + 82, "Three handles, one storage: no element is copied.", 13, INK, "start")
    return picture


def tape():
    picture = Picture(860, 400, "A tape: recorded from left to right, walked from right to left")
    nodes = (("linear", "saves x, W"), ("gelu", "saves h, y"), ("linear", "saves y, V"), ("cross_entropy", "saves log Σ eˣ"))
    picture.text(20, 32, "forward: each op appends a node", 14, BLUE, "start", bold=True)
    for i, (op, saved) in enumerate(nodes):
        x = 90 + i * 190
        picture.box(x, 90, 140, 66, (f"{i}  {op}", saved, "backward closure"), BLUE)
        if i:
            picture.arrow((x - 50, 123), (x - 3, 123), color=BLUE)
    for x, name in ((40, "x"), (160, "W"), (540, "V"), (720, "targets")):
        picture.text(x, 66, name, 14, GREY if name in ("x", "targets") else GREEN, bold=True)
    picture.arrow((46, 72), (95, 92))
    picture.arrow((160, 72), (160, 88), color=GREEN)
    picture.arrow((540, 72), (540, 88), color=GREEN)
    picture.arrow((728, 72), (728, 88))
    picture.text(836, 128, "loss", 14, INK, bold=True)
    picture.arrow((800, 123), (816, 123), color=BLUE)
    picture.text(20, 214, "backward: one loop from the last node to the first", 14, ORANGE, "start", bold=True)
    for i, (op, _) in enumerate(nodes):
        x = 90 + i * 190
        picture.box(x, 244, 140, 50, (f"{i}  {op}", "dy → dx"), ORANGE)
        if i:
            picture.arrow((x - 3, 269), (x - 47, 269), color=ORANGE)
    picture.text(836, 274, "1", 14, INK, bold=True)
    picture.arrow((826, 269), (803, 269), color=ORANGE)
    for x, name in ((160, "W.grad"), (540, "V.grad")):
        picture.arrow((x, 296), (x, 330), color=GREEN)
        picture.box(x - 60, 332, 120, 34, f"{name} += dx", GREEN)
    picture.text(350, 353, "green: leaves (parameters)", 12, GREY)
    picture.text(720, 353, "grey: constants, no gradient", 12, GREY)
    return picture


def ops():
    picture = Picture(860, 330, "What a call of softmax does")
    picture.box(20, 120, 130, 60, ("softmax(x)", "checks, allocates"), GREY, size=14)
    picture.box(220, 30, 210, 66, ("define::softmax(x)", "exp, sum and / :", "no gradient code"), GREEN, size=14)
    picture.box(216, 204, 218, 66, ("VITRINE_RUN(softmax)", "one kernel, on the device", "of the tensors"), BLUE, size=14)
    picture.arrow((150, 140), (218, 76), color=GREEN)
    picture.arrow((150, 160), (218, 228), color=BLUE)
    picture.text(120, 62, "a tape of order 2,", 12, GREY)
    picture.text(120, 78, "or dual numbers", 12, GREY)
    picture.text(110, 236, "otherwise", 12, GREY)
    picture.box(500, 160, 150, 46, "cpu::softmax", BLUE, mono=True)
    picture.box(500, 226, 150, 46, "cuda::softmax", BLUE, mono=True)
    picture.arrow((432, 226), (498, 186), color=BLUE)
    picture.arrow((432, 246), (498, 249), color=BLUE)
    picture.box(700, 180, 140, 76, ("record(…)", "a node with the", "backward"), ORANGE, size=14)
    picture.arrow((652, 186), (698, 206), color=ORANGE)
    picture.arrow((652, 249), (698, 232), color=ORANGE)
    picture.box(500, 40, 340, 46, "each simple op records itself", GREEN)
    picture.arrow((432, 63), (498, 63), color=GREEN)
    picture.text(430, 312, "Tests compare the two paths: the same values, the same gradients.", 13, INK)
    return picture


def attention():
    picture = Picture(1242, 300, "The stages of attention and the parts that change them")
    stages = (("prepare", "chain", "rotary", "qk_norm …"), ("extend", "chain", "persistent", ""), ("score", "one owner", "q·kᵀ", "additive …"),
              ("scale", "one owner", "optimal …", "scale=X"), ("modify", "chain", "softcap", "alibi, t5"),
              ("mask", "chain", "causal", "window=w"), ("normalize", "one owner", "softmax, entmax", "sparsemax …"),
              ("reweight", "chain", "adaptive_span", "learned_mask"), ("read", "one owner", "mean", "laser"),
              ("combine", "chain", "", ""))
    for i, (name, kind, first, second) in enumerate(stages):
        x = 20 + i * 122
        picture.box(x, 70, 104, 54, (name, kind), ORANGE if kind == "one owner" else BLUE if kind == "chain" else GREY, size=14)
        picture.text(x + 52, 150, first, 11, INK, mono=True)
        picture.text(x + 52, 168, second, 11, INK, mono=True)
        if i:
            picture.arrow((x - 18, 97), (x - 1, 97))
    picture.text(20, 40, "q, k, v  [B, H, T, D]", 13, GREY, "start")
    picture.text(1222, 40, "o  [B, H, T, D]", 13, GREY, "end")
    picture.box(20, 206, 1202, 56, ("fused op: ops/attention.h", "if every part folds: tiles of queries meet blocks of keys, and the weights are never stored"),
                GREEN, size=14)
    return picture


def devices():
    picture = Picture(860, 350, "One kernel source, three ways to run")
    picture.box(10, 130, 210, 70, ("VITRINE_KERNEL(softmax)", "declared once,", "in ops/kernels.h"), GREY)
    picture.box(290, 40, 200, 60, ("ops/softmax.cpp", "cpu::softmax"), BLUE, size=14)
    picture.box(290, 210, 200, 60, ("cuda/softmax.cu", "cuda::softmax"), GREEN, size=14)
    picture.arrow((222, 150), (288, 76), color=BLUE)
    picture.arrow((222, 180), (288, 236), color=GREEN)
    picture.box(600, 36, 240, 68, ("CPU", "threads of one pool,", "vectors by Highway"), BLUE, size=14)
    picture.box(600, 150, 240, 68, ("GPU", "compiled by nvcc", "VITRINE_CUDA=on"), GREEN, size=14)
    picture.box(600, 254, 240, 68, ("emulator", "the same file, compiled as C++", "VITRINE_CUDA=emulated"), PURPLE, size=14)
    picture.arrow((492, 70), (598, 70), color=BLUE)
    picture.arrow((492, 230), (598, 190), color=GREEN)
    picture.arrow((492, 250), (598, 284), color=PURPLE)
    picture.text(545, 58, "c++", 12, GREY)
    picture.text(545, 200, "nvcc", 12, GREY)
    picture.text(540, 286, "c++", 12, GREY)
    return picture


def training():
    picture = Picture(860, 330, "A task, the trainer, and what a run leaves")
    picture.box(20, 60, 190, 150, ("Task", "model: a Module", "batch(number)", "validation()", "loss(batch)", "setting"), BLUE, size=14)
    picture.box(300, 36, 240, 200, ("Trainer", "micro-batches", "backward", "clip", "optimizer step", "evaluate", "log, save"), ORANGE, size=14)
    picture.arrow((212, 135), (298, 135), color=BLUE)
    outputs = ((30, "RunRecord", "nn/report/run.h: numbers only", GREEN), (110, "checkpoint", "safetensors; resume() reads it", PURPLE),
               (190, "metrics", "one line of JSON per step", PURPLE))
    for y, name, words, color in outputs:
        picture.box(620, y, 220, 56, (name, words), color, size=14)
        picture.arrow((542, 136), (618, y + 28), color=color)
    picture.box(620, 262, 220, 50, ("report.html", "write_report(…)"), GREEN, size=14)
    picture.arrow((846, 60), (852, 60), (852, 288), (842, 288), color=GREEN)
    picture.text(310, 286, "The record has no drawing code. The trainer has no chart code.", 13, INK)
    return picture


def tests():
    picture = Picture(860, 380, "What follows from one row")
    picture.box(20, 140, 200, 96, ("one row of", "tests/spec/rows.cpp", "name, call, inputs,", "bounds with reasons"), BLUE, size=14)
    checks = ("kernel = definition", "gradient = differences (1e-6)", "gradient = dual numbers (1e-12)", "second, third derivatives",
              "float32, bfloat16, float16", "NaN, ±∞, large, small, zero", "transposed, sliced, flipped, expanded",
              "1, 2, 3 and 7 threads: same bits", "CPU = CUDA (emulated or real)")
    for i, words in enumerate(checks):
        y = 18 + i * 39
        picture.box(310, y, 280, 31, words, GREEN if i != 8 else PURPLE)
        picture.arrow((222, 188), (308, y + 15.5))
    picture.box(660, 120, 180, 136, ("mutations", "the sign flipped,", "times 1.01, or zeroed:", "each must be", "noticed"), ORANGE, size=14)
    picture.arrow((658, 140), (592, 72), color=ORANGE)
    return picture


def mixers():
    picture = Picture(860, 310, "A block with a mixer, and the state of decoding")
    picture.text(20, 102, "x", 15, INK, "start", bold=True)
    boxes = ((70, 90, "norm", GREY), (200, 180, "mixer", ORANGE), (450, 90, "norm", GREY), (580, 140, "feed-forward", BLUE))
    for x, width, name, color in boxes:
        picture.box(x, 70, width, 56, name, color, size=14)
    for start, end in ((34, 68), (160, 198), (380, 448), (540, 578), (720, 800)):
        picture.arrow((start, 98), (end, 98))
    picture.text(810, 102, "y", 15, INK, "start", bold=True)
    for left, right in ((48, 404), (424, 750)):
        picture.arrow((left, 98), (left, 40), (right, 40), (right, 95), dashed=True)
        picture.text((left + right) / 2, 32, "+ x", 12, GREY)
    rows = ((30, "attention", "laser+rotary, …", "state: keys and values, grows", BLUE),
            (300, "lstm", "", "state: h and c, fixed size", PURPLE), (570, "gru", "", "state: h, fixed size", PURPLE))
    for i, (x, name, parts, state, color) in enumerate(rows):
        picture.box(x, 210, 250, 76, (name, *([parts] if parts else []), state), color, size=14)
        picture.arrow((x + 125, 208), (250 + i * 40, 129), color=color)
    return picture


def options():
    picture = Picture(860, 330, "One line in a list, and everything that follows from it")
    picture.box(10, 110, 390, 70, ('o("dropout", dropout, "dropout probability")', ".at_least(0).below(1)"), BLUE, mono=True)
    picture.text(205, 92, "GptOptions::list", 13, INK, mono=True)
    uses = (("command line", "--dropout 0.1, --help", GREEN), ("configuration file", "dropout = 0.1", GREEN),
            ("errors", "--dropout is 1, wanted [0, 1)", ORANGE), ("report", "a row of the settings", PURPLE),
            ("checkpoint", "builds the model again", PURPLE), ("resumed run", "compared with the earlier run", PURPLE))
    for i, (name, words, color) in enumerate(uses):
        y = 14 + i * 51
        picture.box(520, y, 320, 42, (name, words), color, size=13)
        picture.arrow((402, 145), (518, y + 21), color=color)
    return picture


def cuda():
    picture = Picture(860, 420, "A kernel on a GPU: threads on the left, the memory that they see on the right")
    picture.box(20, 30, 380, 360, "", GREY)
    picture.text(210, 54, "grid: all blocks of a launch, in any order", 13, INK, bold=True)
    picture.box(40, 74, 340, 236, "", BLUE)
    picture.text(210, 98, "block 0: up to 1,024 threads, one processor", 13, BLUE, bold=True)
    for i in range(2):
        y = 116 + i * 92
        picture.box(60, y, 300, 76, "", GREEN)
        picture.text(210, y + 22, f"warp {i}: 32 threads, one instruction", 13, GREEN, bold=True)
        for j in range(8):
            picture.box(76 + j * 34, y + 34, 30, 30, f"{32 * i + j}" if j < 7 else "…", GREEN, mono=True)
    picture.box(40, 322, 340, 50, "block 1, block 2, …", BLUE, size=14)
    memories = ((116, "registers", "one thread; moved inside a warp by shuffles", GREEN),
                (208, "shared memory", "one block; its threads wait at __syncthreads()", BLUE),
                (322, "global memory", "all threads: tensors; the next launch sees it", GREY))
    for y, name, words, color in memories:
        picture.box(520, y, 320, 60, (name, words), color, size=14)
    picture.arrow((362, 146), (518, 146), color=GREEN)
    picture.arrow((382, 240), (518, 240), color=BLUE)
    picture.arrow((402, 352), (518, 352))
    picture.arrow((680, 206), (680, 178))
    picture.arrow((680, 320), (680, 270))
    picture.text(690, 198, "faster", 12, GREY, "start")
    picture.text(690, 300, "faster", 12, GREY, "start")
    return picture


PICTURES = {
    f.__name__: f
    for f in (folders, tensor, tape, ops, attention, mixers, devices, cuda, options, training, tests)
}
