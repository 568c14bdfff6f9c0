"""`swe-plugin timeline`: a run's timeline as a picture."""

from __future__ import annotations

from html import escape

from swe_plugin.trajectories.timeline import Timeline

__all__ = ["svg"]

_COLOURS = {
    "wait": "#d9d9d9",
    "start": "#f4a261",
    "generate": "#4c78a8",
    "exec": "#72b7b2",
    "patch": "#b279a2",
    "grade": "#54a24b",
    "rollouts": "#9ecae9",
    "validation": "#ffbf79",
    "training": "#e45756",
}
_WIDTH, _LEFT, _ROW, _GAP, _TOP = 1200.0, 150.0, 7.0, 14.0, 46.0


def svg(timeline: Timeline) -> str:
    """The timeline as SVG: one row per rollout at a time, one block per worker, the trainer on top."""
    span = max(timeline.end - timeline.zero, 1e-3)
    scale = (_WIDTH - _LEFT - 10) / span
    tops, y = {}, _TOP
    for lane, rows in timeline.lanes().items():
        tops[lane] = y
        y += rows * _ROW + _GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH:.0f}" height="{y:.0f}" font-family="sans-serif" '
        'font-size="10"><rect width="100%" height="100%" fill="white"/>'
    ]
    parts += _legend()
    parts += _ticks(span, scale, y)
    for lane, top in tops.items():
        parts.append(f'<text x="4" y="{top + _ROW:.1f}">{escape(lane[-26:])}</text>')
    for bar in sorted(timeline.bars, key=lambda bar: bar.phase.began):
        x = _LEFT + (bar.phase.began - timeline.zero) * scale
        width = max(bar.phase.seconds * scale, 0.3)
        title = escape(f"{bar.label}: {bar.phase.name} {bar.phase.seconds:.3f} s")
        parts.append(
            f'<rect x="{x:.2f}" y="{tops[bar.lane] + bar.row * _ROW:.1f}" width="{width:.2f}" height="{_ROW - 1:.1f}" '
            f'fill="{_COLOURS.get(bar.phase.name, "#777")}"><title>{title}</title></rect>'
        )
    return "\n".join([*parts, "</svg>\n"])


def _legend() -> list[str]:
    parts = []
    for number, (name, colour) in enumerate(_COLOURS.items()):
        x = _LEFT + number * 100
        parts.append(f'<rect x="{x:.0f}" y="6" width="10" height="10" fill="{colour}"/>')
        parts.append(f'<text x="{x + 14:.0f}" y="15">{name}</text>')
    return parts


def _ticks(span: float, scale: float, height: float) -> list[str]:
    every = next((size for size in (0.1, 0.5, 1, 2, 5, 10, 30, 60, 300, 600, 3600) if span / size <= 15), 7200)
    parts = []
    for number in range(int(span / every) + 1):
        x = _LEFT + number * every * scale
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="34" y2="{height:.0f}" stroke="#eee"/>')
        parts.append(f'<text x="{x:.1f}" y="32">{number * every:g} s</text>')
    return parts
