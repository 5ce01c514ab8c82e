"""Ask a model on an OpenAI-compatible server to write a text, or to compare two texts.

A caller needs a server with its key, a price, workers with their limiter, and a client. This package never
repeats a request. A failure describes what may help, and the caller decides whether to pay for another
request.

    server = make_server(settings)         # settings: a ServedModel of study.toml; the key: the environment
    confirm_sending_keys([server], set())  # asks the user before a key is sent to an unknown server
    price = find_price(settings, server.url)      # None if it is unknown
    workers = Workers(server, concurrency=settings.concurrency)
    async with Client(server, concurrency=settings.concurrency) as client:
        # if there is a budget, reserve price.compute_max_cost(body, tokens) here
        async with workers.limiter as admitted_at:
            result = await workers.limiter.send(client.post("/chat/completions", body), admitted_at)
    if isinstance(result, RequestFailure):        # kind, detail, billed, wait, change, fatal
        await workers.back_off(1, result.wait or 0.0)
    answer = read_answer(result)                  # chat, completions or responses; None for other bytes
    text = remove_thinking(answer.text or "")     # None if the thinking never ends
    cost = price.compute_cost(read_usage(result)) # billionths of a US dollar; None if tokens are unknown

`client` and `batch_api` import the SDK, so a dry run imports only the other modules.
"""
