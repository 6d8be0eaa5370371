"""Positions of labels next to points, so that no label covers another or a point."""

from collections.abc import Iterator, Sequence
from math import cos, hypot, pi, sin

MARKER = 9.0  # width and height of a point, in pixels
DISTANCES = (0.0, 9.0, 18.0, 30.0, 44.0, 60.0, 80.0, 105.0, 135.0)  # from the point to the label, in pixels
DIRECTIONS = 16
MAX_LENGTH = 24  # of a label, in characters

Box = tuple[float, float, float, float]  # left, top, right, bottom


def short_label(text: str) -> str:
    """Return a text that is at most `MAX_LENGTH` characters long."""
    return text if len(text) <= MAX_LENGTH else f"{text[: MAX_LENGTH - 1].rstrip()}…"


def label_offsets(
    x: Sequence[float], y: Sequence[float], labels: Sequence[str], *, width: float, height: float, character: float = 6.8,
    line: float = 14.0,
) -> list[tuple[float, float]]:  # fmt: skip
    """Place a label at each point, as near to it as others allow; points with the most neighbours choose last.

    Args:
        x, y: positions of the points in a plot area, in pixels from its left and top edge.
        labels: text of each label.
        width, height: size of the plot area, in pixels; labels stay in it.
        character: width of a character, in pixels.
        line: height of a label, in pixels.

    Returns:
        From each point to the centre of its label, in pixels right and down.
    """
    points = list(zip(x, y, strict=True))
    occupied = [_box(px, py, MARKER, MARKER) for px, py in points]
    offsets = [(0.0, 0.0)] * len(points)
    for index in sorted(range(len(points)), key=lambda index: _neighbours(points, index)):
        px, py = points[index]
        size = (character * len(labels[index]) + 6, line)
        candidates = [
            (dx, dy, _box(px + dx, py + dy, *size)) for dx, dy in _candidates(size) if _inside(px + dx, py + dy, size, width, height)
        ] or [(dx, dy, _box(px + dx, py + dy, *size)) for dx, dy in _candidates(size)]  # fmt: skip
        dx, dy, chosen = min(
            candidates, key=lambda candidate: sum(_overlap(candidate[2], box) for box in occupied)
        )
        offsets[index] = (round(dx, 1), round(dy, 1))
        occupied.append(chosen)
    return offsets


def _candidates(size: tuple[float, float]) -> Iterator[tuple[float, float]]:
    """Yield offsets around a point, nearest first; at each distance the label is first right of, left of, above and below it."""
    order = sorted(range(DIRECTIONS), key=lambda step: (step % 4, step % 8 != 0, step))
    for distance in DISTANCES:
        for step in order:
            angle = 2 * pi * step / DIRECTIONS
            reach_x, reach_y = (size[0] + MARKER) / 2 + distance, (size[1] + MARKER) / 2 + distance
            yield cos(angle) * reach_x, -sin(angle) * reach_y


def _neighbours(points: Sequence[tuple[float, float]], index: int, *, radius: float = 60.0) -> int:
    px, py = points[index]
    return sum(hypot(px - other_x, py - other_y) < radius for other_x, other_y in points)


def _box(x: float, y: float, width: float, height: float) -> Box:
    return x - width / 2, y - height / 2, x + width / 2, y + height / 2


def _inside(x: float, y: float, size: tuple[float, float], width: float, height: float) -> bool:
    left, top, right, bottom = _box(x, y, *size)
    return left >= 0 and top >= 0 and right <= width and bottom <= height


def _overlap(one: Box, other: Box) -> float:
    """Return the area that two boxes share."""
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    return max(width, 0.0) * max(height, 0.0)
