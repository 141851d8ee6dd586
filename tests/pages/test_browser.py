"""The site as users see it: measured with a real framework, opened and clicked in Chromium."""

import re
from time import perf_counter

import pytest
from dlbricks_pages.view import short

from dlbricks_core.cli import main

pytest.importorskip("onnxruntime")
pytest.importorskip("torch")

MODELS = ("onnx:light_squeezenet", "onnx:light_shufflenet")
SHAPE = """
const style = getComputedStyle(arguments[0]);
return style.borderRadius + (style.backgroundColor === style.borderTopColor);
"""
SPENT = """
const begin = performance.now();
{};
document.body.offsetHeight;
return performance.now() - begin;
"""
ORT = ("--backend", "onnxruntime", "--runs", "3", "--busy", "accept")


def dlbricks(*arguments):
    with pytest.raises(SystemExit) as ended:
        main([*map(str, arguments), "-q"])
    return ended.value.code


@pytest.fixture(scope="module")
def folder(keep_workers, tmp_path_factory):
    """A site: one model measured, composed for two threads, and predicted for PyTorch."""
    root = tmp_path_factory.mktemp("atlas")
    with pytest.MonkeyPatch.context() as patch:
        keep_workers(patch)
        store = ("--store", root / "s.sqlite")
        assert (
            dlbricks(
                "estimate", "--measure", MODELS[0], *ORT, "--threads", 1, "--end-to-end", *store
            )
            == 0
        )
        assert dlbricks("estimate", "--measure", MODELS[0], *ORT, "--threads", 2, *store) == 0
        assert dlbricks("estimate", "--measure", MODELS[1], *ORT, "--threads", 1, *store) == 0
        torch = ("--backend", "pytorch", "--threads", 1, "--runs", 3, "--busy", "accept")
        assert dlbricks("estimate", "--measure", MODELS[1], *torch, *store) == 0
        assert dlbricks("results", "pages", "-o", root / "site", *store) == 0
    return root / "site"


def rows(browser):
    return browser.one("[role=status]").text


def test_a_click_on_a_heading_sorts_and_another_one_turns_the_order(folder, browser):
    browser.open(folder / "measurements.html")
    browser.heading("Threads").click()
    found = browser.column("Threads")
    assert found == sorted(found)
    assert set(found) == {"1", "2"}
    browser.heading("Threads").click()
    assert browser.column("Threads") == found[::-1]
    assert browser.one("[aria-sort]").get_attribute("aria-sort") == "descending"


def test_values_are_sorted_as_numbers(folder, browser):
    browser.open(folder / "measurements.html")
    browser.heading("Value").click()
    found = [float(text.removeprefix("≈ ")) for text in browser.column("Value")]
    assert len(found) > 20
    assert found == sorted(found)


def test_what_is_typed_filters_the_rows(folder, browser):
    browser.open(folder / "measurements.html")
    before = len(browser.column("Backend"))
    browser.one("input").send_keys("pytorch Measured")
    found = browser.column("Backend")
    assert 0 < len(found) < before
    assert all(text.startswith("pytorch") for text in found)
    assert set(browser.column("From")) == {"measured"}
    assert rows(browser).startswith(f"{len(found)} of ")
    browser.one("input").send_keys(" nothing-like-it")
    assert browser.column("Backend") == []


def test_a_model_opens_from_the_list_and_says_where_its_latencies_come_from(folder, browser):
    browser.open(folder / "index.html")
    browser.one("nav a[href='models.html']").click()
    link = next(each for each in browser.all("tbody a") if "squeezenet" in each.text)
    name = link.text
    link.click()
    assert browser.one("h1").text == name
    assert sorted(browser.column("From")) == ["composed", "measured", "predicted"]
    dots = [each.get_attribute("class").split()[-1] for each in browser.all(".track .dot")]
    assert sorted(dots) == ["composed", "measured", "predicted"]
    shapes = {browser.script(SHAPE, each) for each in browser.all(".track .dot")}
    assert len(shapes) == 3
    assert all(text.startswith("≈") == (origin != "measured")
               for text, origin in zip(browser.column("Value"), browser.column("From"),
                                       strict=True))  # fmt: skip
    assert "Origin of 3 latencies: 1 measured, 1 composed, 1 predicted." in browser.one("body").text


def test_a_model_shows_the_bricks_that_it_is_made_of(folder, browser):
    browser.open(folder / "models.html")
    next(each for each in browser.all("tbody a") if "squeezenet" in each.text).click()
    shares = [float(text) for text in browser.column("Share in %", table=1)]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) == pytest.approx(100, abs=1)
    assert any("Conv" in text for text in browser.column("Brick", table=1))


def test_a_link_leads_to_the_rows_of_one_model(folder, browser):
    browser.open(folder / "models.html")
    next(each for each in browser.all("tbody a") if "squeezenet" in each.text).click()
    signature, name = browser.one("code").text, browser.one("h1").text
    browser.driver.find_element("link text", "Among all measurements").click()
    assert browser.one("input").get_attribute("value") == short(signature)
    assert set(browser.column("Network")) == {name}


def test_every_link_leads_to_a_page_of_the_site(folder):
    for page in folder.rglob("*.html"):
        for link in re.findall(r'(?:href|src)="([^"]*)"', page.read_text()):
            target = page.parent / link.partition("#")[0]
            assert target.resolve().is_relative_to(folder.resolve())
            assert target.is_file(), f"{page.name}: {link}"


@pytest.mark.parametrize("width", [390, 1200])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_is_wider_than_the_screen(folder, browser, width, scheme):
    colours = set()
    for page in sorted(folder.rglob("*.html")):
        browser.open(page, width, scheme)
        assert browser.script("return document.documentElement.scrollWidth") <= width
        colours.add(browser.script("return getComputedStyle(document.body).backgroundColor"))
    assert colours == {"rgb(255, 255, 255)" if scheme == "light" else "rgb(20, 24, 29)"}


def test_tables_are_sorted_by_keyboard_and_on_a_phone(folder, browser):
    from selenium.webdriver.common.keys import Keys

    browser.open(folder / "measurements.html")
    browser.script("arguments[0].focus()", browser.heading("Value"))
    browser.driver.switch_to.active_element.send_keys(Keys.ENTER)
    assert browser.one("[aria-sort]").text.startswith("Value")
    browser.driver.switch_to.active_element.send_keys(Keys.TAB, Keys.ENTER)
    assert browser.one("[aria-sort]").text.startswith("90%")
    browser.open(folder / "measurements.html", width=390)
    choice = browser.one(".sorter select")
    next(
        each for each in choice.find_elements("tag name", "option") if each.text == "Threads ↓"
    ).click()
    assert browser.column("Threads")[0] == "2"


def test_ten_thousand_measurements_are_written_shown_sorted_and_filtered_quickly(
    stored, browser, tmp_path
):
    store = stored(*((0.1 + (i * 7919 % 10_007), f"{i:024x}", "brick", f"b{i % 3}", 1 + i % 4)
                     for i in range(10_000)))  # fmt: skip
    begin = perf_counter()
    assert dlbricks("results", "pages", "-o", tmp_path / "site", "--store", store) == 0
    assert perf_counter() - begin < 60
    browser.open(tmp_path / "site" / "measurements.html")
    painted = browser.script(
        "return new Promise(told => new PerformanceObserver(list => "
        "told(list.getEntries().at(-1).startTime)).observe({type: 'paint', buffered: true}))"
    )
    assert painted < 2000
    assert rows(browser) == "Rows 1 to 100 of 10,000"
    assert len(browser.column("Value")) == 100
    for title in ("Value", "Network", "Backend"):
        assert spent(browser, "arguments[0].click()", browser.heading(title)) < 1000
    typed = "arguments[0].value = 'b1 {}'; arguments[0].dispatchEvent(new Event('input'))"
    for word in ("conv", "measured"):
        assert spent(browser, typed.format(word), browser.one("input")) < 1000
    assert set(browser.column("Backend")) == {"b1 1.0"}
    assert rows(browser) == "Rows 1 to 100 of 3,333"
    next(each for each in browser.all("button") if each.text == "Next").click()
    assert rows(browser) == "Rows 101 to 200 of 3,333"


def spent(browser, source, *arguments):
    """Milliseconds that the page takes to do something and to lay itself out again."""
    return browser.script(SPENT.format(source), *arguments)
