"""The study's data about LLM judges: questions, requests, answers, calibration and costs."""
