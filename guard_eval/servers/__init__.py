"""Ask a model behind an OpenAI-compatible server: to write a text, or to judge two.

A caller needs a server with its key, a price, a limiter and a client. Nothing here retries: the failure says
what may help, and the caller decides, because only the caller knows what a request may cost.

    server = connect_to(settings)                # a ServedModel of study.toml, with the key that goes there
    may_send_keys([server], set())               # asks the user about a key that a study sends elsewhere
    price = find_price(settings, server.url)     # None if it is unknown
    limiter = RateLimiter(settings.concurrency, timeout=server.timeout)
    async with Client(server, concurrency=settings.concurrency) as client:
        async with limiter as let_go_at:         # price.max_cost(body, tokens) is set aside here, if at all
            result = await limiter.watch(client.post("/completions", body), let_go_at)
    if isinstance(result, RequestFailure):       # kind, detail, billed, wait, change, fatal
        ...
    answer = read_answer(result)                 # text, refusal, how it ended; chat, completions, responses
    cost = price.cost(read_usage(result))        # billionths of a US dollar; None if tokens are unknown
    text = remove_thinking(answer.text)          # None if the thinking never ends

`client` imports the SDK, so a dry run imports the other modules only.
"""
