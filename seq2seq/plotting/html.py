"""Attention weights as one HTML page: a table of real text, without scripts and without anything from the network."""

from collections.abc import Sequence
from html import escape

from seq2seq.plotting.labels import labels

_STYLE = """
:root { color-scheme: light dark; --blue: 66, 146, 198; font: 1rem/1.4 system-ui, sans-serif; }
@media (prefers-color-scheme: dark) { :root { --blue: 33, 113, 181; } }
body { margin: 1.5rem; }
[role=region] { overflow: auto; max-height: 90vh; }
table { border-collapse: separate; border-spacing: 1px; }
caption { text-align: start; padding-bottom: .75rem; }
caption span { display: block; font-size: .85rem; }
th { font-weight: 500; padding: .15rem .4rem; background: Canvas; white-space: nowrap; }
thead th { position: sticky; top: 0; z-index: 1; vertical-align: bottom; }
tbody th { position: sticky; left: 0; text-align: end; }
td { min-width: 2.2em; text-align: center; padding: .3rem .2rem; font-size: .8rem; font-variant-numeric: tabular-nums;
  background: rgba(var(--blue), var(--w)); }
tr:hover th, td:hover { outline: 2px solid; outline-offset: -2px; }
"""


def attention_page(
    source_tokens: Sequence[str], target_tokens: Sequence[str], weights: Sequence[Sequence[float]], title: str = ""
) -> str:
    """The page: rows are target tokens, columns source tokens; a cell shows its weight in percent, and all on hover.

    Args:
        source_tokens, target_tokens: as a tokenizer shows them.
        weights: one row for each target token, one weight from 0 to 1 for each source token.
        title: a line above the table.

    Raises:
        ValueError: the weights do not fit the tokens.
    """
    sources, targets = ([escape(label) for label in labels(tokens)] for tokens in (source_tokens, target_tokens))
    name = escape(title) or "Attention"
    head = "".join(f'<th scope="col">{source}</th>' for source in sources)
    rows = "\n".join(_row(target, sources, row) for target, row in zip(targets, weights, strict=True))
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{name}</title>
<style>{_STYLE}</style>
</head>
<body>
<div role="region" aria-labelledby="caption" tabindex="0">
<table>
<caption id="caption">{name}
<span>Rows: target. Columns: source. Each cell: share of attention, in percent.</span></caption>
<thead><tr><th scope="col">target \\ source</th>{head}</tr></thead>
<tbody>
{rows}
</tbody>
</table>
</div>
</body>
</html>
"""


def _row(target: str, sources: Sequence[str], weights: Sequence[float]) -> str:
    cells = "".join(_cell(target, source, weight) for source, weight in zip(sources, weights, strict=True))
    return f'<tr><th scope="row">{target}</th>{cells}</tr>'


def _cell(target: str, source: str, weight: float) -> str:
    hint = f"{source} → {target}: {weight:.4f}"
    return f'<td style="--w:{weight:.3f}" title="{hint}">{100 * weight:.0f}</td>'
