"""Draws the curves of the pages from the numbers that the labs write."""
import csv
import subprocess
import tempfile

from svg import BLUE, GREY, INK, ORANGE, Chart, Picture


def columns_of(build, lab):
    """Runs a lab and returns its columns of numbers by name."""
    with tempfile.TemporaryDirectory() as folder:
        curves = f"{folder}/curves.csv"
        subprocess.run([build / "examples" / lab, f"{folder}/page.html", curves], check=True, stdout=subprocess.DEVNULL)
        with open(curves, newline="") as lines:
            rows = list(csv.DictReader(lines))
    return {name: [float(row[name]) for row in rows] for name in rows[0]}


def legend(picture, x, y, color, words, dashed=False):
    picture.line([(x, y), (x + 26, y)], color, 2.2, dashed)
    picture.text(x + 33, y + 4.5, words, 13, INK, "start")


def laser(build):
    numbers = columns_of(build, "laser")
    picture = Picture(860, 400, "Gradient of the output along a score, standard attention and LASER, two keys")
    for left, gap in ((70, 1), (490, 10)):
        chart = Chart(picture, left, 60, 340, 250, (-12, 12), (1e-6, 10), log_y=True)
        chart.axes(range(-12, 13, 4), (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1, 10), "Δs, the difference of the scores",
                   f"∂o/∂s for values that differ by {gap}")
        chart.curve(numbers["x"], numbers[f"standard gap {gap}"], BLUE)
        chart.curve(numbers["x"], numbers[f"laser gap {gap}"], ORANGE)
    legend(picture, 300, 380, BLUE, "standard")
    legend(picture, 450, 380, ORANGE, "LASER")
    return picture


def scale(build):
    numbers = columns_of(build, "attention_scale")
    picture = Picture(860, 410, "The softmax's gradient as a function of the scale: approximation and mean of draws")
    for left, keys, optimum in ((60, 64, 1.549439), (490, 1024, 2.146531)):
        chart = Chart(picture, left, 60, 340, 250, (0, 8), (0, 3.5))
        chart.axes(range(0, 9, 2), (0, 1, 2, 3), "α, the factor of normal scores", f"α(1 − Σp²) for {keys} keys")
        chart.curve(numbers["x"], numbers[f"approximation {keys}"], ORANGE, dashed=True)
        chart.curve(numbers["x"], numbers[f"draws {keys}"], BLUE)
        for alpha, words, shift, anchor in ((1, "1/√D", -5, "end"), (optimum, f"α* = {optimum:.2f}", 5, "start")):
            x = chart.place(alpha, 0)[0]
            picture.line([(x, 60), (x, 310)], GREY, 1.2, dashed=True)
            picture.text(x + shift, 76, words, 12, GREY, anchor)
    legend(picture, 200, 392, ORANGE, "approximation, with its maximum at α*", dashed=True)
    legend(picture, 520, 392, BLUE, "mean of 200 draws")
    return picture


PICTURES = {"laser": laser, "scale": scale}
