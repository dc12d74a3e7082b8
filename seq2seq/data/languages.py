"""What has to be known about a language, by its ISO 639 code."""

_WITHOUT_BLANKS = {"zh", "ja", "th", "lo", "km", "my"}


def base_language(language: str) -> str:
    """The code without script or region: zh of zh-Hans."""
    return language.partition("-")[0]


def writes_blanks(language: str) -> bool:
    """Whether the language puts blanks between words."""
    return base_language(language) not in _WITHOUT_BLANKS
