"""Generate texts from prompts: the strategies, the choice of each token, and the engines that run models."""
