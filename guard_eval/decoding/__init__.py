"""How each strategy chooses the next token: pure tensor functions, one per equation. No model runs here."""
