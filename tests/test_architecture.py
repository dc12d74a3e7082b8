"""The imports follow the data flow: no cycle, no arrow from a lower layer to a higher one."""

import ast
import subprocess
import sys
from collections.abc import Iterable
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# Low to high; a module may import its own layer and lower ones. A package's name stands for all of its modules
# but __main__, which is a command.
LAYERS = [
    ["errors", "devices"],
    ["config"],
    ["data"],
    ["model", "plotting"],
    ["checkpoint"],
    ["training"],
    ["inference"],
    ["evaluation"],
    ["cli"],
    ["comparison"],
    ["train", "evaluate", "translate", "compare", "lesson"],
]
# The package's own module holds lazy names only (a test below sees to it), so it is above everything.
ROOT_LAYER = len(LAYERS)
LAYER_OF = {name: level for level, names in enumerate(LAYERS) for name in names}


def modules_of(root: Path) -> dict[str, Path]:
    """Dotted name -> file, of all modules of the package seq2seq under root."""
    found = {}
    for file in sorted((root / "seq2seq").rglob("*.py")):
        parts = file.relative_to(root).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


def type_checking_only(tree: ast.AST) -> set[ast.AST]:
    """Nodes under `if TYPE_CHECKING:`, which never run."""
    guarded = [n for n in ast.walk(tree) if isinstance(n, ast.If) and ast.unparse(n.test).endswith("TYPE_CHECKING")]
    return {inner for node in guarded for statement in node.body for inner in ast.walk(statement)}


def imports_of(name: str, file: Path, modules: Iterable[str]) -> set[str]:
    """Modules of ours that a module imports anywhere, also inside functions; `from package import module` resolved."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    skipped = type_checking_only(tree)
    package = name.split(".") if file.name == "__init__.py" else name.split(".")[:-1]
    found: set[str] = set()
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            inner = {f"{base}.{alias.name}" for alias in node.names}
            found.update(inner & set(modules))
            if inner - set(modules):
                found.add(base)
    return {module for module in found if module.split(".")[0] == "seq2seq"} - {name}


def layer(module: str) -> int | None:
    parts = module.split(".")
    if len(parts) == 1:
        return ROOT_LAYER
    return LAYER_OF["train" if parts[-1] == "__main__" else parts[1]] if parts[1] in LAYER_OF else None


def faults(root: Path) -> list[str]:
    """Everything that breaks the architecture of the tree under root, one line each."""
    modules = modules_of(root)
    graph = {name: imports_of(name, file, modules) for name, file in modules.items()}
    found = []
    for name, imported in graph.items():
        level = layer(name)
        if level is None:
            found.append(f"{name} has no layer: add it to LAYERS in tests/test_architecture.py")
            continue
        for other in sorted(imported):
            above = layer(other)
            if name == "seq2seq.inference.search":
                found.append(f"{name} imports {other}; it may import nothing of ours")
            elif name.startswith("seq2seq.training") and other.startswith("seq2seq.inference"):
                found.append(f"{name} imports {other}; decoding is handed in")
            elif above is not None and above > level:
                found.append(f"{name} imports {other}, which is above it")
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        found.append("cycle: " + " <- ".join(error.args[1]))
    return found


def test_the_imports_follow_the_data_flow_without_a_cycle() -> None:
    assert faults(ROOT) == []


def test_importing_the_package_does_not_import_torch() -> None:
    code = "import sys, seq2seq; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def plant(root: Path, files: dict[str, str]) -> list[str]:
    for name, text in files.items():
        file = root / "seq2seq" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8", newline="\n")
    return faults(root)


GOOD = {
    "__init__.py": "def load():\n    from seq2seq.model import net\n",
    "errors.py": "",
    "data/__init__.py": "from seq2seq.data.store import Store\n",
    "data/store.py": "import torch\nfrom seq2seq.errors import UserError\n",
    "model/__init__.py": "",
    "model/net.py": "from typing import TYPE_CHECKING\nfrom ..data.store import Store\n"
    "if TYPE_CHECKING:\n    from seq2seq.train import main\n",
    "data/__main__.py": "import seq2seq.cli\n",
    "cli.py": "",
    "train.py": "import seq2seq.model.net\n",
}


def test_the_check_passes_a_tree_that_is_in_order(tmp_path: Path) -> None:
    assert plant(tmp_path, GOOD) == []


@pytest.mark.parametrize(
    ("file", "text", "fault"),
    [
        (
            "data/up.py",
            "from seq2seq.model import net\n",
            "data.up imports seq2seq.model.net, which is above it",
        ),
        ("data/up.py", "from ..model.net import N\n", "data.up imports seq2seq.model.net, which is above it"),
        (
            "data/up.py",
            "def f():\n    import seq2seq.train\n",
            "data.up imports seq2seq.train, which is above it",
        ),
        ("data/up.py", "from seq2seq import load\n", "seq2seq.data.up imports seq2seq, which is above it"),
        ("training/loop.py", "import seq2seq.inference.x\n", "decoding is handed in"),
        ("inference/search.py", "from seq2seq.errors import UserError\n", "it may import nothing of ours"),
        ("model/net.py", "from seq2seq.model import net2\n", "cycle: "),
        ("model/net.py", "from . import net2\n", "cycle: "),
        ("unheard_of.py", "", "seq2seq.unheard_of has no layer"),
    ],
)
def test_the_check_finds_a_planted_fault(tmp_path: Path, file: str, text: str, fault: str) -> None:
    found = plant(tmp_path, GOOD | {"model/net2.py": "import seq2seq.model.net\n", "inference/x.py": "", file: text})
    assert len(found) == 1
    assert fault in found[0]
