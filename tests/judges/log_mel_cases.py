#!/usr/bin/env python3
"""Writes log-mel features that librosa has computed: log_mel_cases.py FILE

The file has, for each scale, samples, the filters and the features, and the options in its metadata. tests/data/log_mel_cases
holds the result. Needs librosa and safetensors from PyPI. The window fills the transform, because librosa centres a shorter
window in it, which moves the frames.
"""
import argparse

import librosa
import numpy as np
from safetensors.numpy import save_file

RATE, POINTS, HOP, MELS, FLOOR = 8000, 128, 40, 20, 1e-10


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file")
    arguments = parser.parse_args()
    random = np.random.default_rng(21)
    time = np.arange(POINTS + 12 * HOP) / RATE
    samples = 0.4 * np.sin(2 * np.pi * (300 + 4000 * time) * time) + 0.05 * random.standard_normal(len(time))
    samples = samples.astype(np.float32)
    tensors = {"samples": samples}
    for scale, htk, norm in ("htk", True, None), ("slaney", False, "slaney"):
        filters = librosa.filters.mel(sr=RATE, n_fft=POINTS, n_mels=MELS, fmin=50, fmax=3900, htk=htk, norm=norm, dtype=np.float64)
        spectrum = librosa.stft(samples.astype(np.float64), n_fft=POINTS, hop_length=HOP, window="hann", center=False)
        energies = filters @ np.abs(spectrum) ** 2
        tensors[f"{scale}.filters"] = filters
        tensors[f"{scale}.features"] = np.ascontiguousarray(np.log(np.maximum(energies, FLOOR)).T)
    save_file(tensors, arguments.file, {"made with": f"librosa {librosa.__version__}"})


if __name__ == "__main__":
    main()
