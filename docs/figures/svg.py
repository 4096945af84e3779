"""A few shapes of SVG: boxes with text, arrows, and line charts."""
import html
import math

BLUE, ORANGE, GREEN, PURPLE, INK, GREY, LINE = "#0072b2", "#d55e00", "#007d5a", "#a0437f", "#1c2026", "#5b6470", "#c4cad2"
TINTS = {BLUE: "#e3f0f8", ORANGE: "#fbeadd", GREEN: "#e0f3ec", PURPLE: "#f6e7f0", GREY: "#f1f3f5"}
FONT = "font-family='DejaVu Sans, Verdana, sans-serif'"
MONO = "font-family='DejaVu Sans Mono, Menlo, monospace'"


class Picture:
    """An SVG with a white background, so that it is legible on a dark page too."""

    def __init__(self, width, height, title):
        self.width, self.height, self.title, self.parts = width, height, title, []

    def text(self, x, y, words, size=13, color=INK, anchor="middle", mono=False, bold=False):
        weight = " font-weight='bold'" if bold else ""
        self.parts.append(f"<text x='{x:g}' y='{y:g}' font-size='{size}' fill='{color}' text-anchor='{anchor}' "
                          f"{MONO if mono else FONT}{weight} xml:space='preserve'>{html.escape(words)}</text>")

    def box(self, x, y, width, height, lines=(), color=GREY, mono=False, size=13, dashed=False):
        """Draws a box with text. If there are several lines, the first line is bold."""
        dash = " stroke-dasharray='5 4'" if dashed else ""
        self.parts.append(f"<rect x='{x:g}' y='{y:g}' width='{width:g}' height='{height:g}' rx='6' "
                          f"fill='{TINTS[color]}' stroke='{color}'{dash}/>")
        lines = [lines] if isinstance(lines, str) else list(lines)
        step = size + 4
        top = y + height / 2 - step * (len(lines) - 1) / 2 + size * 0.36
        for i, line in enumerate(lines):
            self.text(x + width / 2, top + i * step, line, size if i == 0 else size - 1, INK if i == 0 else GREY,
                      mono=mono, bold=i == 0 and len(lines) > 1)

    def line(self, points, color=GREY, width=1.5, dashed=False, arrow=False):
        path = "M" + " L".join(f"{x:.6g} {y:.6g}" for x, y in points)
        dash = " stroke-dasharray='6 4'" if dashed else ""
        self.parts.append(f"<path d='{path}' fill='none' stroke='{color}' stroke-width='{width}'{dash} "
                          "stroke-linejoin='round'/>")
        if arrow:
            (x0, y0), (x, y) = points[-2:]
            angle = math.atan2(y - y0, x - x0)
            wings = [(x - 9 * math.cos(angle + a), y - 9 * math.sin(angle + a)) for a in (-0.4, 0.4)]
            corners = " ".join(f"{a:.5g},{b:.5g}" for a, b in [(x, y), *wings])
            self.parts.append(f"<polygon points='{corners}' fill='{color}'/>")

    def arrow(self, *points, color=GREY, dashed=False):
        self.line(points, color, dashed=dashed, arrow=True)

    def save(self, path):
        body = "\n".join(self.parts)
        title = html.escape(self.title)
        path.write_text(f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {self.width} {self.height}' "
                        f"width='{self.width}' height='{self.height}' role='img' aria-label='{title}'>\n"
                        f"<title>{title}</title>\n<rect width='100%' height='100%' rx='8' fill='#ffffff'/>\n"
                        f"{body}\n</svg>\n")


class Chart:
    """The axes of a line chart in a picture."""

    def __init__(self, picture, left, top, width, height, x_range, y_range, log_y=False):
        self.picture, self.left, self.top, self.width, self.height = picture, left, top, width, height
        self.x_range, self.log_y = x_range, log_y
        self.y_range = [math.log10(y) for y in y_range] if log_y else y_range

    def place(self, x, y):
        y = math.log10(y) if self.log_y else y
        (x0, x1), (y0, y1) = self.x_range, self.y_range
        return self.left + self.width * (x - x0) / (x1 - x0), self.top + self.height * (1 - (y - y0) / (y1 - y0))

    def axes(self, xs, ys, x_label, title):
        right, bottom = self.left + self.width, self.top + self.height
        for x in xs:
            at = self.place(x, 10 ** self.y_range[0] if self.log_y else self.y_range[0])[0]
            self.picture.line([(at, self.top), (at, bottom)], LINE, 0.6)
            self.picture.text(at, bottom + 17, f"{x:g}".replace("-", "−"), 12, GREY)
        for y in ys:
            at = self.place(self.x_range[0], y)[1]
            self.picture.line([(self.left, at), (right, at)], LINE, 0.6)
            words = f"1e{round(math.log10(y)):d}" if self.log_y else f"{y:g}"
            self.picture.text(self.left - 7, at + 4, words.replace("-", "−"), 12, GREY, "end")
        self.picture.text((self.left + right) / 2, bottom + 36, x_label, 13, GREY)
        self.picture.text(self.left, self.top - 12, title, 14, INK, "start", bold=True)

    def curve(self, xs, ys, color, dashed=False):
        """Draws only the parts of the curve that are within the y range."""
        pieces, piece = [], []
        for x, y in zip(xs, ys):
            at = math.log10(y) if self.log_y and y > 0 else y
            inside = self.y_range[0] <= at <= self.y_range[1] and (y > 0 or not self.log_y)
            if inside:
                piece.append(self.place(x, y))
            elif piece:
                pieces, piece = pieces + [piece], []
        for points in pieces + [piece]:
            if len(points) > 1:
                self.picture.line(points, color, 2.2, dashed)
