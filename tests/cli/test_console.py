"""What the terminal shows when it is narrow."""

from guard_eval.cli.console import say_table


def test_a_narrow_table_folds_names_and_keeps_numbers(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    name = "contrastive_decoding(alpha=0.1, amateur_tau=0.5, beams=5, amateur_prompt=last)"
    numbers = ["96.96", "-1.40", "201.3", "12418"]
    say_table(["strategy", "div. %", "coh.", "tokens", "tok/s"], [[name, *numbers], ["greedy", *numbers]])
    shown = capsys.readouterr().out
    assert all(shown.count(number) == 2 for number in numbers)
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= 60
