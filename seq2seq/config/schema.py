"""The YAML as typed, documented models: each field's docstring is its documentation and lands in the JSON schema."""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from seq2seq.config.values import (
    Count,
    Device,
    FileName,
    Fraction,
    Heads,
    HeadsOrNone,
    Language,
    Layers,
    Minutes,
    Seed,
    Share,
    Size,
    Temperature,
    Weight,
    checked,
    is_path,
)

CellKind = Literal["rnn", "lstm", "gru"]
DecoderCellKind = Literal["rnn", "lstm", "gru", "cgru"]
AttentionKind = Literal[
    "none", "concat", "concat_positions", "concat_tanh", "scaled_dot", "additive", "dot", "general", "cosine"
]
SelectionKind = Literal["soft", "hard", "local", "sparsemax", "entmax"]
TokenizerKind = Literal["unigram", "bpe", "characters", "words"]
OptimizerKind = Literal["adam", "adamw"]
ScheduleKind = Literal["constant", "plateau", "inverse_sqrt", "cosine"]

MAX_BEAM = 1000


class Section(BaseModel):
    """A part of the configuration: immutable, strict about types, without unknown keys."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, use_attribute_docstrings=True, allow_inf_nan=False
    )


class FilePair(Section):
    """Two files of parallel text: line n of one is the translation of line n of the other."""

    source: FileName
    """Path of the source side, plain, .gz or .bz2."""
    target: FileName
    """Path of the target side, plain, .gz or .bz2."""


CorpusSpec = Annotated[
    str | FilePair,
    checked(
        lambda value: isinstance(value, FilePair | dict) or is_path(value),
        "give a path, a named corpus, or {source: PATH, target: PATH}",
    ),
]


class Cleaning(Section):
    """What is mended or dropped before anything is learned; every rule is counted in the log."""

    normalize: bool = True
    """Unicode NFC; control and zero-width characters, BOM and foreign line ends removed; blanks squeezed."""
    drop_empty: bool = True
    """Drop pairs with an empty side."""
    max_characters: Count | None = 400
    """Drop pairs with a side longer than this many characters; null keeps them."""
    max_ratio: Annotated[float, Field(gt=1.0)] | None = 5.0
    """Drop pairs whose length ratio is this many times off the corpus's median ratio; null keeps them."""
    drop_duplicates: bool = True
    """Drop exact repetitions of a pair."""


class Data(Section):
    """Which parallel text: a TSV path (source column first), {source, target} files, or a named corpus."""

    train: CorpusSpec = "hsk"
    """Training text: a path, {source, target}, or one of the named corpora: hsk, tatoeba."""
    extra: list[CorpusSpec] = []
    """More training text, learned from but not split; pairs that share a side with dev or test are left out."""
    dev: CorpusSpec | None = None
    """Text that chooses the best checkpoint; null splits it off from train."""
    test: CorpusSpec | None = None
    """Text the final figures are measured on; null splits it off from train."""
    dev_size: Count | None = None
    """Pairs to split off for dev, where data.dev is null; null: a twentieth of the corpus, from 100 to 1,000."""
    test_size: Count | None = None
    """Pairs to split off for test, where data.test is null; null: as many as for dev."""
    source_language: Language = "zh"
    """ISO 639 code of the source language."""
    target_language: Language = "en"
    """ISO 639 code of the target language; chooses sacreBLEU's tokenizer."""
    cleaning: Cleaning = Cleaning()
    """Cleaning rules, applied to train; dev and test are only normalised."""


class Tokenizer(Section):
    """How one side's text becomes ids."""

    kind: TokenizerKind = "unigram"
    """unigram or bpe (SentencePiece subwords), characters, or words (jieba for Chinese, Moses for the rest)."""
    vocabulary_size: Annotated[int, Field(ge=8, le=1_000_000)] = 4000
    """Entries at most; lowered with a warning where the corpus cannot fill it."""
    character_coverage: Annotated[float, Field(ge=0.98, le=1.0)] = 0.9999
    """Share of the characters that subwords must cover (unigram and bpe)."""
    min_frequency: Count = 1
    """Rarer words or characters become <unk> (words and characters)."""
    sampling_alpha: Share = 0.0
    """Subword regularisation in training: with unigram (Kudo 2018) the smaller, the more varied, 0.1 to 0.5 are usual;
    with bpe (BPE-dropout, Provilkov 2020) the chance to leave out a merge, 0.1 is usual, 0.6 in text
    without blanks; 0: off."""

    @model_validator(mode="after")
    def _sampling_needs_subwords(self) -> Self:
        if self.sampling_alpha and self.kind not in ("unigram", "bpe"):
            raise ValueError(
                f"sampling_alpha: {self.sampling_alpha:g} goes with kind: unigram or bpe, not {self.kind}; set it to 0"
            )
        return self


class Tokenizers(Section):
    """One tokenizer for each side, learned from the training text only and kept in the run directory."""

    source: Tokenizer = Tokenizer()
    """Tokenizer of the source side."""
    target: Tokenizer = Tokenizer()
    """Tokenizer of the target side."""


def _divides(key: str, heads: int, name: str, size: int) -> None:
    if heads and size % heads:
        raise ValueError(f"{key}: {heads} heads do not divide {name}, {size}; choose a divisor of it")


class Encoder(Section):
    """Embedding and (bidirectional) recurrence over the source."""

    cell: CellKind = "gru"
    """Recurrent cell: rnn (tanh), lstm or gru."""
    embedding_size: Size = 256
    """Size of the source embeddings (E)."""
    hidden_size: Size = 192
    """Size of the recurrent state, of each direction."""
    layers: Layers = 1
    """Stacked recurrent layers."""
    bidirectional: bool = True
    """Read the sentence in both directions; annotations are [forward; backward] (Bahdanau 2015, section 3.2)."""
    embedding_dropout: Fraction = 0.2
    """Dropout on the embeddings."""
    dropout: Fraction = 0.2
    """Dropout between layers."""
    word_dropout: Fraction = 0.0
    """Share of source tokens replaced by <unk> in training (Gal & Ghahramani 2016)."""
    layer_norm: bool = False
    """Layer normalisation inside the cell (Ba 2016)."""
    residual: bool = False
    """Add each layer's input to its output, from the second layer on (Wu 2016, section 3.1)."""
    variational_dropout: bool = False
    """Draw the dropout masks of embeddings and layers once a sentence, not at each position (Gal & Ghahramani 2016)."""
    self_attention: HeadsOrNone = 0
    """Heads of self-attention over the outputs of the recurrence (Q = K = V; Vaswani 2017); 0: none."""

    @property
    def output_size(self) -> int:
        """Size of an annotation (M)."""
        return self.hidden_size * (2 if self.bidirectional else 1)

    @model_validator(mode="after")
    def _self_attention_fits(self) -> Self:
        _divides("self_attention", self.self_attention, "the size of an annotation", self.output_size)
        return self


class Attention(Section):
    """How the decoder weighs the source positions at each step."""

    kind: AttentionKind = "additive"
    """Score: none, concat, concat_positions, concat_tanh, scaled_dot, additive, dot, general or cosine;
    docs/attention.md has each formula."""
    size: Size | None = None
    """Size of the space in which queries meet keys (A), of all heads together; null: the decoder's hidden_size."""
    heads: Heads = 1
    """Heads, each with its own part of that space and of the values (Vaswani 2017, section 3.2.2)."""
    selection: SelectionKind = "soft"
    """What the scores select: soft (softmax over all positions), hard (exactly one position), local (a window),
    sparsemax (Martins & Astudillo 2016) or entmax (1.5; Peters 2019), which give exact zeros."""
    centre: Literal["predicted", "monotonic"] = "predicted"
    """Centre of the local window: predicted from the query (local-p, whose Gaussian leaves the sum of the weights
    below 1) or the target position (local-m; Luong 2015)."""
    window: Size = 5
    """Positions on each side of the centre of the local window (D)."""
    temperature: Temperature = 0.1
    """kind: cosine divides the cosine by this."""
    gumbel_temperature: Temperature = 1.0
    """selection: hard draws with Gumbel noise at this temperature while it trains (Jang 2017)."""
    max_length: Size = 50
    """Source positions that kind: concat_positions tells apart; later ones share the last one's weights."""
    coverage: bool = False
    """Let the score see how much attention each position has had so far (Tu 2016)."""
    coverage_loss: Weight = 0.0
    """Weight of the penalty for looking twice at a position (See 2017, equation 12); needs coverage."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.kind == "none" and (self.selection != "soft" or self.heads > 1 or self.coverage):
            raise ValueError(
                f"kind: none scores nothing: it goes with selection: soft, heads: 1 and coverage: false, not with "
                f"selection: {self.selection}, heads: {self.heads} and coverage: {str(self.coverage).lower()}"
            )
        if self.coverage_loss and not self.coverage:
            raise ValueError(f"coverage_loss: {self.coverage_loss:g} needs coverage: true; or set it to 0")
        return self


class Decoder(Section):
    """Recurrence over the target, [Q;C] -> Linear, and the output layer."""

    cell: DecoderCellKind = "gru"
    """Recurrent cell: rnn (tanh), lstm, gru, or cgru (conditional GRU: attention between two steps; Sennrich 2017)."""
    embedding_size: Size = 256
    """Size of the target embeddings (E)."""
    hidden_size: Size = 384
    """Size of the recurrent state (H)."""
    layers: Layers = 1
    """Stacked recurrent layers."""
    attend: Literal["before", "between", "after"] = "after"
    """before (Bahdanau 2015): the query is s_{t-1} and [Q;C] -> Linear feeds the cell;
    between: the order of cell: cgru, the query is the state after its first step and [Q;C] -> Linear feeds the second;
    after (Luong 2015): the query is s_t and [Q;C] -> Linear feeds the output layer."""
    input_feeding: bool = False
    """With attend: after, give the cell also the last step's [Q;C] -> Linear (Luong 2015, section 3.3)."""
    initial_state: Literal["encoder", "zero"] = "encoder"
    """First state: tanh(Linear(final encoder state)), or zeros."""
    embedding_dropout: Fraction = 0.2
    """Dropout on the embeddings."""
    dropout: Fraction = 0.2
    """Dropout between layers and before the output layer."""
    word_dropout: Fraction = 0.0
    """Share of fed target tokens replaced by <unk> in training."""
    tie_embeddings: bool = True
    """The output layer is the transposed target embedding (Press & Wolf 2017)."""
    layer_norm: bool = False
    """Layer normalisation inside the cell (Ba 2016)."""
    residual: bool = False
    """Add each layer's input to its output, from the second layer on (Wu 2016, section 3.1)."""
    variational_dropout: bool = False
    """Draw the dropout masks of embeddings and layers once a sentence, not at each step (Gal & Ghahramani 2016)."""
    self_attention: HeadsOrNone = 0
    """Heads of causal self-attention over the recurrence's outputs so far (Vaswani 2017, section 3.2.3); 0: none."""

    @model_validator(mode="after")
    def _order_fits(self) -> Self:
        if self.input_feeding and self.attend != "after":
            raise ValueError(
                f"input_feeding: true goes with attend: after; attend: {self.attend} feeds the context already"
            )
        if self.cell == "cgru" and self.attend != "between":
            raise ValueError(f"cell: cgru attends between its two steps: set attend: between, not {self.attend}")
        if self.attend == "between" and self.cell != "cgru":
            raise ValueError(f"attend: between needs the two steps of cell: cgru, not cell: {self.cell}")
        _divides("self_attention", self.self_attention, "hidden_size", self.hidden_size)
        return self


class TeacherForcing(Section):
    """What the decoder reads while it trains."""

    ratio: Share = 1.0
    """Chance, for each token, to feed the reference instead of the model's own last token (Bengio 2015)."""


class Training(Section):
    """The loop: budget, batches, optimizer, schedule, validation."""

    max_minutes: Minutes | None = None
    """Wall-clock budget of the training loop, validation included; the cosine schedule ends exactly there."""
    max_steps: Count | None = None
    """Updates at most."""
    max_epochs: Count | None = None
    """Passes over the training text at most."""
    batch_tokens: Annotated[int, Field(ge=16, le=10_000_000)] = 700
    """Tokens in a batch at most, padding included, on its longer side."""
    accumulate: Count = 1
    """Batches whose gradients make one update."""
    optimizer: OptimizerKind = "adam"
    """adam (Kingma & Ba 2015) or adamw (Loshchilov & Hutter 2019)."""
    learning_rate: Annotated[float, Field(gt=0.0, le=100.0)] = 1.5e-3
    """Peak learning rate."""
    weight_decay: Weight = 0.0
    """Weight decay."""
    warmup_steps: Annotated[int, Field(ge=0, le=1_000_000_000)] = 200
    """Updates in which the rate rises linearly from 0."""
    schedule: ScheduleKind = "cosine"
    """After warm-up: constant, plateau (halved when dev stops improving), inverse_sqrt, or cosine to the budget."""
    label_smoothing: Fraction = 0.1
    """Mass of the target distribution spread over the vocabulary (Szegedy 2016)."""
    clip_norm: Annotated[float, Field(gt=0.0)] | None = 1.0
    """Largest global gradient norm; null does not clip."""
    average_decay: Fraction = 0.0
    """Decay of an exponential moving average of the weights, which is then what is validated and kept; 0: off."""
    validate_every: Count = 500
    """Updates between validations; with max_minutes put off while they have cost over a tenth of the training time."""
    validate_sentences: Count = 500
    """Dev sentences translated for BLEU at each validation; perplexity always takes all of them."""
    patience: Count | None = None
    """Stop after this many validations without improvement; null never does."""
    checkpoint_steps: Count | None = None
    """Updates between checkpoints to resume from, besides those at each validation and stop."""
    checkpoint_minutes: Minutes | None = 5.0
    """Minutes between such checkpoints."""
    skip_limit: Count = 10
    """Updates in a row that may be left out because loss or gradient is not finite; then the run goes back to its best
    weights with half the rate, once, and the next time it stops."""

    @model_validator(mode="after")
    def _ends(self) -> Self:
        limits = (self.max_minutes, self.max_steps, self.max_epochs, self.patience)
        if all(limit is None for limit in limits):
            raise ValueError("max_minutes: null, like max_steps, max_epochs and patience: training never ends; set one")
        if self.schedule == "cosine" and all(limit is None for limit in limits[:3]):
            raise ValueError("schedule: cosine needs an end: set max_minutes, max_steps or max_epochs")
        return self


class Search(Section):
    """How translations are searched for."""

    beam: Annotated[int, Field(ge=1, le=MAX_BEAM)] = 5
    """Beam size; 1 is greedy search."""
    length_penalty: Annotated[float, Field(ge=0.0, le=5.0)] = 1.0
    """Log-probabilities are divided by length ** this."""
    max_length_ratio: Annotated[float, Field(gt=0.0, le=100.0)] = 2.0
    """Longest translation, in target tokens for each source token ..."""
    max_length_extra: Annotated[int, Field(ge=1, le=10_000)] = 10
    """... plus this many."""
    batch_tokens: Annotated[int, Field(ge=1, le=10_000_000)] = 2000
    """Source tokens times beam in a batch at most."""
    max_source_tokens: Annotated[int, Field(ge=8, le=65_536)] = 200
    """Longer text is translated in pieces, cut where sentences end, else where a blank or this limit is."""


class Config(Section):
    """Everything that decides a run."""

    seed: Seed = 42
    """Seeds the weights, the order of the data, dropout and sampling."""
    device: Device = "auto"
    """auto (CUDA when there is one, else MPS, else CPU), cpu, cuda, cuda:N or mps."""
    threads: Annotated[int, Field(ge=1, le=4096)] | None = None
    """CPU threads; null: OMP_NUM_THREADS, else one for each core this process may use."""
    data: Data = Data()
    """Parallel text."""
    tokenizer: Tokenizers = Tokenizers()
    """Text to ids."""
    encoder: Encoder = Encoder()
    """Source side of the model."""
    attention: Attention = Attention()
    """Between both sides."""
    decoder: Decoder = Decoder()
    """Target side of the model."""
    teacher_forcing: TeacherForcing = TeacherForcing()
    """What the decoder reads while it trains."""
    training: Training = Training(max_minutes=5.0)
    """The training loop."""
    search: Search = Search()
    """Translation."""

    @model_validator(mode="after")
    def _attention_fits(self) -> Self:
        attention, memory, query = self.attention, self.encoder.output_size, self.decoder.hidden_size
        if attention.kind == "dot" and memory != query:
            raise ValueError(
                f"attention.kind: dot needs queries and keys of one size, but decoder.hidden_size is {query} and the "
                f"encoder's output {memory}; make them equal or use kind: general"
            )
        _divides("attention.heads", attention.heads, "the size of an annotation", memory)
        if attention.kind in ("concat_tanh", "scaled_dot", "additive", "cosine"):
            _divides("attention.heads", attention.heads, "attention.size", attention.size or query)
        return self
