"""python -m seq2seq.lesson: the worked example of docs/attention.md, step by step."""

import argparse
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from seq2seq import cli

if TYPE_CHECKING:
    from torch import Tensor

SENTENCES = (("他", "在", "北京", "工作", "。"), ("谢谢", "老师", "。", "<pad>", "<pad>"))
FORMULAS = {
    "concat": "softmax(Linear([Q;K]))",
    "concat_tanh": "softmax(sum(tanh(Linear([Q;K]))))",
    "scaled_dot": "softmax(Q K^T / sqrt(d_k))",
}
TEXT = {
    "en": {
        "title": "One step of attention, first sentence of the batch; docs/attention.md explains each line.",
        "Q": "the decoder's state: it looks for a place",
        "K": "the encoder's outputs, one row for each source word; V is the same",
        "expanded": "Q, once for each source word",
        "joined": "[Q;K]: Q beside each key",
        "scores": "Linear([Q;K]): one score for each source word",
        "transposed": "the source words along the last axis",
        "weights": "softmax: the attention weights, which sum to 1",
        "C": "weights V: the context",
        "QC": "[Q;C]: Q beside the context",
        "output": "Linear([Q;C]): what the decoder goes on with",
        "formulas": "The weights of the three formulas, for two queries. Formula 1 does not see the query.",
        "place": "a place",
        "person": "a person",
        "mask": "The second sentence ends in padding. Formula 1, without and with the mask.",
        "unmasked": "without",
        "masked": "with",
    },
    "zh": {
        "title": "注意力走一步，取本批第一句；每一行的道理见 docs/attention.zh-CN.md。",
        "Q": "解码器状态：它在找一个地点",
        "K": "编码器输出，每个源词一行；V 与它相同",
        "expanded": "把 Q 复制给每个源词",
        "joined": "[Q;K]：Q 与每个键并排",
        "scores": "Linear([Q;K])：每个源词一个得分",
        "transposed": "转置，让源词排在最后一维",
        "weights": "softmax：注意力权重，总和为 1",
        "C": "权重乘 V：上下文",
        "QC": "[Q;C]：Q 与上下文并排",
        "output": "Linear([Q;C])：解码器接着用的向量",
        "formulas": "两个查询在三个公式下的权重。公式 1 看不见查询。",
        "place": "地点",
        "person": "人",
        "mask": "第二句末尾是填充。公式 1，不加掩码与加掩码。",
        "unmasked": "不加",
        "masked": "加",
    },
}
WIDTH = 7


def example() -> "tuple[Tensor, Tensor]":
    """Q (2, 1, 8) and K = V (2, 5, 8), written by hand; the features are person, place, action, ..."""
    import torch

    person, place, action, grammar, end, polite = torch.eye(8)[:6]
    padding = torch.zeros(8)
    first = (person, place / 2 + grammar, place, action, end)
    second = (action + polite, person + polite, end, padding, padding)
    return 4 * torch.stack([place, person]).unsqueeze(1), torch.stack([torch.stack(first), torch.stack(second)])


def score_weight() -> "Tensor":
    """The weight (1, 16) of Linear([Q;K]) in formula 1."""
    import torch

    return torch.tensor([[0.5] * 8 + [1.0, 2, 1, 0, -1, 0, 0, 0]])


def steps() -> "dict[str, Tensor]":
    """Formula 1 from Q and K to the reprojected [Q;C]: each step's name and value, in order."""
    import torch

    query, keys = example()
    expanded = query.expand(2, 5, 8)
    joined = torch.cat([expanded, keys], dim=-1)
    scores = joined @ score_weight().T
    weights = scores.transpose(1, 2).softmax(dim=-1)
    context = weights @ keys
    query_context = torch.cat([query, context], dim=-1)
    return {
        "Q": query,
        "K": keys,
        "expanded": expanded,
        "joined": joined,
        "scores": scores,
        "transposed": scores.transpose(1, 2),
        "weights": weights,
        "C": context,
        "QC": query_context,
        "output": query_context @ torch.eye(8).repeat(2, 1),
    }


def scores_of() -> "dict[str, Callable[[Tensor, Tensor], Tensor]]":
    """The three formulas before softmax: (B, 1, 8) queries and (B, S, 8) keys to scores (B, 1, S)."""
    return {
        "concat": lambda q, k: (q @ score_weight()[:, :8].T + k @ score_weight()[:, 8:].T).transpose(1, 2),
        "concat_tanh": lambda q, k: (q + k - 4).tanh().sum(dim=-1).unsqueeze(1),
        "scaled_dot": lambda q, k: q @ k.transpose(1, 2) / 8**0.5,
    }


def lines(language: str) -> Iterator[str]:
    """What the command prints."""
    import torch

    text = TEXT[language]
    yield text["title"]
    for number, (name, value) in enumerate(steps().items(), start=1):
        yield f"\n{number:2}  {name}  {list(value.shape)}  {text[name]}"
        labels = SENTENCES[0] if value.size(1) == len(SENTENCES[0]) else ("",)
        for row, label in zip(value[0].tolist(), labels, strict=True):
            yield f"{_numbers(row)}  {label}".rstrip()

    query, keys = example()
    scores = scores_of()
    yield f"\n{text['formulas']}\n{_right('', 36)}{_right('Q', 10)}{_header(SENTENCES[0])}"
    for name, formula in FORMULAS.items():
        for label, one in zip(("place", "person"), query, strict=True):
            weights = scores[name](one.unsqueeze(0), keys[:1]).softmax(dim=-1)
            yield f"  {formula:34}{_right(text[label], 10)}{_numbers(weights[0, 0].tolist())}"

    yield f"\n{text['mask']}\n{_right('', 10)}{_header(SENTENCES[1])}"
    second = scores["concat"](query, keys)[1, 0]
    padding = torch.tensor([word == "<pad>" for word in SENTENCES[1]])
    for label, row in (("unmasked", second), ("masked", second.masked_fill(padding, -torch.inf))):
        yield f"{_right(text[label], 10)}{_numbers(row.softmax(dim=-1).tolist())}"


def _numbers(row: list[float]) -> str:
    return "".join(f"{round(number, 3) + 0.0:{WIDTH}g}" for number in row)


def _header(words: tuple[str, ...]) -> str:
    return "".join(_right(word, WIDTH) for word in words)


def _right(text: str, width: int) -> str:
    """Text at the right edge of a column; a Chinese character takes two places."""
    from seq2seq.plotting.labels import display_width

    return " " * (width - display_width(text)) + text


def main(arguments: argparse.Namespace) -> None:
    """Every step on stdout."""
    sys.stdout.writelines(f"{line}\n" for line in lines(arguments.language))


def arguments() -> argparse.ArgumentParser:
    """The command's arguments."""
    parser = cli.parser("lesson", "Print a step of attention, every shape and number; docs/attention.md explains it.")
    parser.add_argument("--language", choices=TEXT, default="en", help="en (default) or zh")
    return parser


if __name__ == "__main__":
    sys.exit(cli.run(arguments(), main))
