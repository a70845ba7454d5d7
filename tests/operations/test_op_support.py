"""docs/op_support.md agrees with the table of ops, and both contain every op of StableHLO."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

import op_support
from jaxlib.mlir.dialects import _stablehlo_ops_gen as dialect

from jax_ipu.compiler.lowering.table import ALTERNATIVES
from support.op_table import COLLECTIVES, ELSEWHERE, ROWS

# Parts of other ops.
PARTS = {"return"}


def test_document_is_current():
    assert op_support.main(["--check"]) == 0


def test_stale_document_is_an_error(tmp_path, monkeypatch):
    stale = tmp_path / "op_support.md"
    stale.write_text(op_support.document() + "\n")
    monkeypatch.setattr(op_support, "DOCUMENT", stale)
    assert op_support.main(["--check"]) == 1
    assert op_support.main([]) == 0
    assert op_support.main(["--check"]) == 0


def test_every_op_is_supported_or_refused_with_advice():
    classes = [getattr(dialect, name) for name in dir(dialect) if name.endswith("Op")]
    ops = {c.OPERATION_NAME.removeprefix("stablehlo.") for c in classes if hasattr(c, "OPERATION_NAME")}
    known = {row.op for row in ROWS} | set(ELSEWHERE) | set(ALTERNATIVES) | set(COLLECTIVES) | PARTS
    assert len(ops) > 100
    assert sorted(ops - known) == []
