"""The page as a browser and a screen reader take it."""

from html.parser import HTMLParser

import pytest

from seq2seq.plotting.html import attention_page

SOURCE, TARGET = ["<script>alert(1)</script>", "谢谢", '"&'], ["▁Thank", "▁you"]
WEIGHTS = [[0.125, 0.5, 0.375], [0.25, 0.0, 0.75]]
TITLE = "</title><script>x</script>"


class Page(HTMLParser):
    """Elements with their attributes and text, and that each is closed in its turn."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None], list[str]]] = []
        self.open: list[tuple[str, list[str]]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        content: list[str] = []
        self.elements.append((tag, dict(attrs), content))
        if tag != "meta":
            self.open.append((tag, content))

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        if self.open:
            self.open[-1][1].append(data)

    def texts(self, tag: str, **attributes: str) -> list[str]:
        return ["".join(t) for name, found, t in self.elements if name == tag and attributes.items() <= found.items()]


@pytest.fixture
def page() -> Page:
    return Page(attention_page(SOURCE, TARGET, WEIGHTS, TITLE))


def test_it_is_a_table_with_a_header_for_each_token(page: Page) -> None:
    assert page.texts("th", scope="col")[1:] == SOURCE
    assert page.texts("th", scope="row") == ["Thank", "you"]
    assert page.texts("td") == ["12", "50", "38", "25", "0", "75"]
    assert TITLE in page.texts("caption")[0]


def test_a_pointer_over_a_cell_is_told_both_tokens_and_the_weight(page: Page) -> None:
    hints = [attributes["title"] for tag, attributes, _ in page.elements if tag == "td"]
    assert hints[1] == "谢谢 → Thank: 0.5000"
    assert len(hints) == 6


def test_no_token_becomes_markup(page: Page) -> None:
    assert "script" not in {tag for tag, _, _ in page.elements}
    assert page.texts("title") == [TITLE]


def test_nothing_is_fetched(page: Page) -> None:
    assert not {"link", "img", "iframe"} & {tag for tag, _, _ in page.elements}
    assert not {"src", "href"} & {name for _, attributes, _ in page.elements for name in attributes}
    assert not any(word in style for style in page.texts("style") for word in ("url(", "@import"))


def test_the_keyboard_reaches_and_scrolls_the_table(page: Page) -> None:
    (region,) = (attributes for _, attributes, _ in page.elements if attributes.get("role") == "region")
    assert region["tabindex"] == "0"
    assert region["aria-labelledby"] in {attributes.get("id") for tag, attributes, _ in page.elements}


def test_without_a_title_the_page_has_one_all_the_same() -> None:
    assert Page(attention_page(["a"], ["b"], [[1.0]])).texts("title") == ["Attention"]


def test_weights_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="zip"):
        attention_page(["a", "b"], ["c"], [[1.0]])
