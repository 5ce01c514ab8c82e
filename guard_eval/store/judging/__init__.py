"""What the study keeps about LLM judges: questions, requests, answers, calibration and costs."""
