"""A run directory: config, tokenizers, held-out text, weights and trainer state. No pickle anywhere.

run.json               format, status (running | finished), times
config.yaml            the whole configuration
tokenizer.source.*     tokenizer.target.*
dev.tsv  test.tsv      the held-out pairs, so that a run is measured on what it never saw, anywhere
best.safetensors       weights that did best on dev
last.safetensors       weights, optimizer and trainer state to resume from
previous.safetensors   the one before, for when last.safetensors is damaged
metrics.jsonl          one line for each validation
report.json            the final evaluation
SHA256SUMS             of all text files and tokenizers; the tensor files and metrics.jsonl are checked by other means
.lock                  held by the training that is at work here
"""

from seq2seq.checkpoint.adopting import adopt
from seq2seq.checkpoint.finding import RUNS, find_run, find_unfinished
from seq2seq.checkpoint.formats import FORMAT
from seq2seq.checkpoint.run_directory import LoadedRun, RunDirectory

__all__ = ["FORMAT", "RUNS", "LoadedRun", "RunDirectory", "adopt", "find_run", "find_unfinished"]
