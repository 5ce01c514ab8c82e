"""Parse a page into tags and texts."""

from html.parser import HTMLParser


class Page(HTMLParser):
    """A parsed page: `tags` has each tag with its attributes, `texts` has the texts between the tags."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.texts = [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.texts.append(data)
