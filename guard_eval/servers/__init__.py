"""Ask a model on an OpenAI-compatible server to write a text, or to compare two texts.

A caller needs a server with its key, a price, workers with their limiter, and a client. This package never
sends a request twice: a failure says what may help, and the caller decides, because only the caller knows
whether an answer is worth another request.

    server = make_server(settings)                # a ServedModel of study.toml, with the key that goes there
    confirm_sending_keys([server], set())  # asks the user about a key that a study sends elsewhere
    price = find_price(settings, server.url)      # None if it is unknown
    workers = Workers(server, concurrency=settings.concurrency)
    async with Client(server, concurrency=settings.concurrency) as client:
        # set price.compute_max_cost(body, tokens) aside here, if there is a budget
        async with workers.limiter as admitted_at:
            result = await workers.limiter.send(client.post("/chat/completions", body), admitted_at)
    if isinstance(result, RequestFailure):        # kind, detail, billed, wait, change, fatal
        await workers.back_off(1, result.wait or 0.0)
    answer = read_answer(result)                  # of chat, completions or responses; None if it is no answer
    text = remove_thinking(answer.text or "")     # None if the thinking never ends
    cost = price.compute_cost(read_usage(result)) # billionths of a US dollar; None if tokens are unknown

`client` and `batch_api` import the SDK, so a dry run imports only the other modules.
"""
