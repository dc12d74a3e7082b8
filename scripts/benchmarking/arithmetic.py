"""How much arithmetic the model's matrix products need, counted from its shapes: nothing for padding or masks."""

from benchmarking.stopwatch import Work
from seq2seq.config import Config
from seq2seq.errors import UserError

GATES = {"rnn": 1, "gru": 3, "lstm": 4, "cgru": 3}
PASSES = 3
"""Forward 1, backward 2: each product has a gradient for both of its factors."""


def forward_flops(config: Config, target_vocabulary: int, work: Work) -> dict[str, int]:
    """Floating-point operations of a forward pass over `work` by part of the model; a multiply-add counts 2.

    Raises:
        UserError: the configuration has a part that is not counted.
    """
    _refuse_what_is_not_counted(config)
    encoder, decoder, attention = config.encoder, config.decoder, config.attention
    E, H, M = decoder.embedding_size, decoder.hidden_size, encoder.output_size
    features = E if decoder.tie_embeddings else H
    reprojected = features if decoder.attend == "after" else H
    query, key, score = _attention_sizes(config)
    values = M * M if attention.heads > 1 else 0
    directions = M // encoder.hidden_size
    read = _stack(encoder.cell, encoder.embedding_size, encoder.hidden_size, encoder.layers, directions)
    if decoder.cell == "cgru":
        cells = _stack("gru", E, H, 1) + _stack("gru", reprojected, H, decoder.layers)
    else:
        fed = reprojected if decoder.attend == "before" or decoder.input_feeding else 0
        cells = _stack(decoder.cell, E + fed, H, decoder.layers)
    readout = 0 if decoder.attend == "after" else (H + reprojected) * features
    initial = M * H * decoder.layers if decoder.initial_state == "encoder" else 0
    multiplied = {
        "encoder": work.source_tokens * read,
        "keys and values": work.source_tokens * (M * key + values),
        "first state": work.sentences * initial,
        "decoder cell": work.target_tokens * cells,
        "queries": work.target_tokens * H * query,
        "scores": work.token_pairs * score,
        "contexts": work.token_pairs * M,
        "reprojection": work.target_tokens * ((H + M) * reprojected + readout),
        "output layer": work.target_tokens * features * target_vocabulary,
    }
    return {part: 2 * count for part, count in multiplied.items()}


def training_flops(config: Config, target_vocabulary: int, work: Work) -> int:
    """Floating-point operations of forward and backward passes over `work`."""
    return PASSES * sum(forward_flops(config, target_vocabulary, work).values())


def _stack(cell: str, inputs: int, hidden: int, layers: int, directions: int = 1) -> int:
    """Multiplications of a step of stacked recurrent layers: of the inputs and of the state, in each gate."""
    sizes = [inputs] + [hidden * directions] * (layers - 1)
    return sum(directions * GATES[cell] * hidden * (size + hidden) for size in sizes)


def _attention_sizes(config: Config) -> tuple[int, int, int]:
    """Outputs of W Q and of U K, and multiplications of a score, of all heads together."""
    kind, memory = config.attention.kind, config.encoder.output_size
    size = config.attention.size or config.decoder.hidden_size
    sizes = {
        "none": (0, 0, 0),
        "concat": (config.attention.heads, config.attention.heads, 0),
        "concat_tanh": (size, size, 0),
        "additive": (size, size, size),
        "scaled_dot": (size, size, size),
        "cosine": (size, size, size),
        "dot": (0, 0, memory),
        "general": (memory, 0, memory),
    }
    return sizes[kind]


def _refuse_what_is_not_counted(config: Config) -> None:
    for key, used in (
        ("attention.kind: concat_positions", config.attention.kind == "concat_positions"),
        ("attention.selection: local", config.attention.selection == "local"),
        ("encoder.self_attention", config.encoder.self_attention > 0),
        ("decoder.self_attention", config.decoder.self_attention > 0),
        ("teacher_forcing.ratio below 1", config.teacher_forcing.ratio < 1),
    ):
        if used:
            raise UserError(f"{key}: its arithmetic is not counted; measure without it")
