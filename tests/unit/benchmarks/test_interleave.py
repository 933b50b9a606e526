"""Tests the rounds of contenders: protocol, turns and table; no contender trains."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import interleave, train_step
from benchmarks.peers import batches

# Runs steps without duration, and appends its name to a shared file at each step.
FAKE = """
import sys
from pathlib import Path
from benchmarks.peers.session import Session

name, units, turns = sys.argv[1], float(sys.argv[2]), Path(sys.argv[3])
session = Session()
session.tell(parameters=7)
print("noise on stdout")
step = 0
while True:
    step += 1
    with turns.open("a") as file:
        file.write(name)
    session.after_step(loss=float(step), units=units)
"""
FAILING = "import sys; sys.exit('no such wheel')"


def contender(name: str, program: str, *arguments: object, reference: str = "a") -> interleave.Contender:
    return interleave.Contender(name, [sys.executable, "-c", program, name, *map(str, arguments)], reference)


def state_of(process: int) -> str:
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]


def test_contender_runs_the_requested_steps_and_stops(tmp_path: Path) -> None:
    turns = tmp_path / "turns"
    with interleave.Process(contender("a", FAKE, 3, turns), tmp_path / "log") as process:
        assert process.facts == {"parameters": 7, "loss": 1.0}
        for last in (6, 11):
            found = process.go(2, 3)
            assert (found.steps, found.units, found.loss) == (3, 9.0, last)
            assert found.seconds > 0 and found.peak_bytes > 1e6
            assert found.milliseconds == pytest.approx(1e3 * found.seconds / 3)
            # The signal may not have arrived yet.
            assert any(state_of(process.number) == "T" for _ in range(100_000))
        assert turns.read_text() == "a" * 11
    assert "noise on stdout" in (tmp_path / "log").read_text()
    assert not Path(f"/proc/{process.number}").exists()


def test_contenders_take_turns(tmp_path: Path) -> None:
    turns = tmp_path / "turns"
    both = [contender("a", FAKE, 1, turns), contender("b", FAKE, 2, turns)]
    found = interleave.interleaved(both, rounds=3, seconds=0.0, settle=0, warmup=1, work=tmp_path)
    assert [len(measured.rounds) for measured in found] == [3, 3]
    per_round = [measured.rounds[0].steps for measured in found]
    rows = "".join(name * (1 + steps) for name, steps in zip("ab", per_round, strict=True))
    assert turns.read_text().endswith(3 * rows)


def test_a_contender_that_fails_is_named(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"broken: ended with 1: no such wheel"):
        interleave.Process(contender("broken", FAILING), tmp_path / "log")


def test_malformed_command_is_refused(tmp_path: Path) -> None:
    command = contender("a", FAKE, 1, tmp_path / "turns").command
    done = subprocess.run(command, cwd=interleave.ROOT, input="run 3\n", capture_output=True, text=True)
    assert done.returncode == 1
    assert "Received: 'run 3'" in done.stderr


def measured(name: str, milliseconds: list[float], units: float = 0.0, reference: str = "ours") -> interleave.Measured:
    taken = [interleave.Round(2, 2e-3 * value, units, 5_000_000_000, 10.0) for value in milliseconds]
    facts = {"parameters": 11_267_900, "loss": train_step.FIRST_LOSS}
    return interleave.Measured(interleave.Contender(name, [], reference), facts, taken)


def test_ratios_are_computed_within_rounds() -> None:
    ours, peer = interleave.summary([measured("ours", [100, 200, 400], 10), measured("peer", [300, 210, 500], 10)])
    assert (ours["milliseconds"], ours["times_milliseconds"]) == pytest.approx((200, 1))
    assert peer["milliseconds"] == pytest.approx(300)
    assert peer["milliseconds_range"] == pytest.approx([210, 500])
    # Differs from the ratio of the medians, 1.5.
    assert peer["times_milliseconds"] == pytest.approx(1.25)
    assert peer["rate"] == pytest.approx(10 / 0.6)
    assert peer["times_rate"] == pytest.approx(1 / 1.25)


def test_no_ratio_without_units_or_reference() -> None:
    (row,) = interleave.summary([measured("peer", [100])])
    assert row["times_milliseconds"] is row["rate"] is row["times_rate"] is None


def test_tables_show_the_measurements() -> None:
    rows = interleave.summary([measured("ours", [100, 200], 4096), measured("peer", [150, 300], 8192)])
    _, ours, peer = (line.split() for line in train_step.step_table(rows))
    assert ours == ["ours", "150.0", "100.0", "-", "200.0", "1.00", "11.019", "5.0", "11,267,900"]
    assert peer[:6] == ["peer", "225.0", "150.0", "-", "300.0", "1.50"]
    _, ours, peer = (line.split() for line in interleave.rate_table(rows, "tokens/s"))
    assert ours == ["ours", "15,360", "10,240", "-", "20,480", "150.0", "1.00", "x", "ours"]
    assert peer[-3:] == ["1.33", "x", "ours"]


@pytest.mark.parametrize(("field", "value"), [("parameters", 11_267_901), ("loss", 9.0), ("loss", float("nan"))])
def test_contenders_with_other_results_are_reported(field: str, value: Any) -> None:
    rows = interleave.summary([measured("ours", [100]), measured("peer", [100])])
    train_step.check_same(rows)
    with pytest.raises(ValueError, match=r"(?s)Received: .*peer"):
        train_step.check_same([rows[0], rows[1] | {field: value}])


@pytest.mark.parametrize(
    ("argv", "peers"),
    [
        ([], ["keras_hub"]),
        (["--torch_python", "p"], ["keras_hub", "huggingface", "huggingface_stock"]),
        (["--original", "o", "--peers", "original", "keras_hub_xla"], ["original", "keras_hub_xla"]),
        (["--peers"], []),
    ],
)
def test_only_available_peers_run(argv: list[str], peers: list[str], tmp_path: Path) -> None:
    args = train_step.arguments([*argv, "--precisions", "float32", "bfloat16"])
    assert args.peers == peers
    for precision in args.precisions:
        names = [contender.name for contender in train_step.step_contenders("tiny", precision, args, tmp_path)]
        # The original supports one precision only.
        there = [peer for peer in ["bert_tf", *peers] if precision == "float32" or peer != "original"]
        assert names == [f"{peer} {precision}" for peer in there]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--peers", "original"], "needs --original"),
        (["--peers", "huggingface_stock"], "needs --torch_python"),
        (["--part", "padding"], "needs --data"),
        (["--rounds", "0"], "--rounds must be at least 1. Received: 0"),
    ],
)
def test_incompatible_arguments_are_refused(argv: list[str], message: str, capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit):
        train_step.arguments(argv)
    assert message in capsys.readouterr().err


def test_batches_are_complete_and_reproducible() -> None:
    first, again = batches.batches(), batches.batches()
    assert all(np.array_equal(first[name], again[name]) for name in first)
    mask, positions, weights = first["padding_mask"], first["mask_positions"], first["mask_weights"]
    assert mask.shape == (8, batches.SEQUENCES, batches.LENGTH)
    assert positions.shape == weights.shape == (8, batches.SEQUENCES, batches.PREDICTIONS)
    lengths = mask.sum(axis=-1)
    assert np.array_equal(mask, np.arange(batches.LENGTH) < lengths[..., None])
    assert 0 < (lengths < batches.LENGTH).mean() < 0.3
    # Real predictions are at distinct tokens: 15 % of the tokens, or as many as fit.
    assert np.take_along_axis(mask, positions, axis=-1).all()
    assert np.array_equal(weights.sum(axis=-1), np.minimum(batches.PREDICTIONS, np.round(0.15 * lengths)))
    for batch, row in np.ndindex(weights.shape[:2]):
        real = positions[batch, row][weights[batch, row] > 0]
        assert len(set(real)) == len(real)
    assert (first["token_ids"][mask == 0] == 0).all()


def test_a_stopped_contender_dies_with_its_parent(tmp_path: Path) -> None:
    parent = f"""
import os, signal, sys
from pathlib import Path
from benchmarks import interleave

fake = interleave.Contender("a", [sys.executable, "-c", {FAKE!r}, "a", "1", {str(tmp_path / "turns")!r}], "a")
print(interleave.Process(fake, Path({str(tmp_path / "log")!r})).number, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", parent], cwd=interleave.ROOT, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    child = int(done.stdout)
    assert any(not Path(f"/proc/{child}").exists() or state_of(child) in "ZX" for _ in range(100_000))
