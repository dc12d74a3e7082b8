"""What was measured, as text."""

from collections.abc import Callable, Mapping, Sequence

from benchmarking.measurement import Figures
from benchmarking.training_process import Block

MEGABYTE = 1e6
Row = tuple[str, Callable[[Figures], float | None], str]


def report(
    figures: Mapping[str, Figures], epoch_tokens: int, flops: Sequence[int], flops_by_part: Mapping[str, int]
) -> str:
    """A table of the trainings by name, ours first, then their blocks, and what our arithmetic consists of.

    Args:
        figures: of each training.
        epoch_tokens: target tokens of the corpus, </s> included.
        flops: that each block of ours needed.
        flops_by_part: of any stretch of work, by part of the model.
    """
    rows: list[Row] = [
        ("target tokens/s", lambda each: each.target_tokens_per_second, ",.0f"),
        ("sentences/s", lambda each: each.sentences_per_second, ",.1f"),
        ("seconds per epoch", lambda each: epoch_tokens / each.target_tokens_per_second, ",.1f"),
        ("peak memory (MB)", lambda each: each.memory and each.memory / MEGABYTE, ",.0f"),
        ("padding share", lambda each: each.work.padding_share, ".1%"),
        ("start to first update (s)", lambda each: each.start_seconds, ".1f"),
        ("parameters", lambda each: each.parameters, ",.0f"),
        ("epochs in all blocks", lambda each: each.work.target_tokens / epoch_tokens, ".2f"),
    ]
    columns = list(figures.values())
    lines = [_line("", [*figures, *(["ratio"] if len(columns) > 1 else [])])]
    for title, value, form in rows:
        values = [value(each) for each in columns]
        cells = ["-" if each is None else format(each, form) for each in values]
        if len(values) > 1 and values[0] and values[1]:
            cells.append(f"{values[0] / values[1]:.2f}")
        lines.append(_line(title, cells))
    for number, blocks in enumerate(zip(*(each.blocks for each in columns), strict=True), start=1):
        lines.append(_line(f"block {number}: tokens/s, MB", [_shown(block) for block in blocks]))
    ours, total = columns[0], sum(flops_by_part.values())
    rates = ", ".join(f"{1e-9 * rate:,.0f}" for rate in ours.product_rates)
    shares = ", ".join(f"{part} {count / total:.1%}" for part, count in flops_by_part.items())
    utilisation = f"model FLOP utilisation: {ours.utilisation(flops):.1%} of a plain large product ({rates} GFLOP/s)"
    return "\n".join([*lines, utilisation, f"arithmetic: {shares}"])


def _line(title: str, cells: Sequence[str]) -> str:
    return f"{title:<26}" + "".join(f"{cell:>18}" for cell in cells)


def _shown(block: Block) -> str:
    rate = f"{block.work.target_tokens / block.seconds:,.0f}"
    return f"{rate}, -" if block.memory is None else f"{rate}, {block.memory / MEGABYTE:,.0f}"
