"""The documentation is programs: every snippet runs, and prints what the page says it prints.

The Python blocks of a page run one after the other, in one namespace and an empty folder. A
``text`` block after one is its output, to every digit printed but those of seconds, which a machine
measures: a page prints no more digits than machines agree on. A ``yaml`` block is a valid
configuration, or the file that its first line names; a configuration is written where the next
``console`` block, whose commands run, looks for it. ``py`` and ``yml`` blocks do not run as they
stand; some have tests of their own.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
import sys
from pathlib import Path

import pytest
import yaml

from colonnade import cli
from colonnade.channels import PRESETS, Network
from colonnade.config import load_config, parse_config
from colonnade.config.parse import parse_section
from colonnade.config.reference import keys_of, reference
from colonnade.deployment.folders import CLASSES
from colonnade.deployment.job import job_of
from colonnade.deployment.kits import prepare_kit
from colonnade.deployment.policy import PolicyConfig
from colonnade.deployment.site import SiteConfig, check_site
from colonnade.networks_told import network_told

DOCS = Path(__file__).parent.parent / "docs"
PAGES = [page for page in sorted(DOCS.glob("*.md")) if page.stem not in ("design", "configuration")]
PAGES.append(DOCS.parent / "README.md")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


MEASURED = re.compile(r"\d[\d.]*(?= (ms|s|min|h)\b)")


def form(text):
    """Return text with times blanked, and with them the widths of columns that hold them."""
    return re.sub(r"[ ─]+", " ", MEASURED.sub("#", text.strip()))


@pytest.mark.parametrize(
    ("page", "printed", "same"),
    [
        ("0.787 96 384", "0.787 96 384\n", True),
        ("0.787 96 384", "0.788 96 384", False),
        ("svfl   0.92   8.36 s*", "svfl   0.92   12.3 s*", True),
        ("svfl   0.92   8.36 s*", "svfl   0.93   8.36 s*", False),
        ("30 rounds, 5.13 MB", "29 rounds, 5.13 MB", False),
    ],
)
def test_figures_are_compared_to_the_last_digit_and_times_are_not(page, printed, same):
    assert (form(page) == form(printed)) is same


def command(line, monkeypatch):
    monkeypatch.setattr(sys, "argv", shlex.split(line))
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert not left.value.code, line


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
@pytest.mark.filterwarnings("ignore:this prediction showed")
def test_a_page_does_what_it_says(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLONNADE_DATA", raising=False)
    namespace = {"__name__": "docs"}
    printed = written = ""
    for language, content in BLOCK.findall(page.read_text(encoding="utf-8")):
        match language:
            case "python":
                output = io.StringIO()
                with contextlib.redirect_stdout(output):
                    exec(compile(content, str(page), "exec"), namespace)
                printed = output.getvalue()
            case "text":
                assert form(printed) == form(content)
            case "yaml" if content.startswith("# policy.yaml"):
                parse_section(PolicyConfig, yaml.safe_load(content), str(page))
            case "yaml" if content.startswith("# site.yaml"):
                parse_section(SiteConfig, yaml.safe_load(content), str(page))
            case "yaml":
                parse_config(yaml.safe_load(content), str(page))
                written = content
            case "console":
                if name := re.search(r"\w+\.yaml", content):
                    Path(name.group()).write_text(written, encoding="utf-8")
                for line in content.splitlines():
                    command(line.removeprefix("$ "), monkeypatch)
                    capsys.readouterr()


def shown(page, language, start=""):
    """Return the blocks of a page in a language, and with this first line."""
    blocks = BLOCK.findall((DOCS / page).read_text(encoding="utf-8"))
    return [text for each, text in blocks if each == language and text.startswith(start)]


@pytest.fixture
def three_companies():
    config = load_config(DOCS.parent / "examples" / "three-companies.yaml")
    return job_of(config, "three")


def test_the_sites_that_are_shown_fit_the_job(three_companies):
    told = [yaml.safe_load(text) for text in shown("deploy.md", "yaml", "# site.yaml")]
    sites = [parse_section(SiteConfig, values, "deploy.md") for values in told]
    named = dict.fromkeys(site.organisation for site in sites)
    assert list(named) == three_companies.everybody
    assert any(site.new for site in sites)
    for site in sites:
        check_site(three_companies, site)


def test_the_project_that_is_shown_has_a_site_for_each_company(three_companies):
    provision = pytest.importorskip("nvflare.lighter.provision")
    [text] = shown("deploy.md", "yml")
    project = provision.prepare_project(yaml.safe_load(text))
    assert [site.name for site in project.get_clients()] == three_companies.everybody


def test_a_kit_that_is_prepared_is_as_it_is_shown(tmp_path):
    [allowed] = shown("deploy.md", "json")
    (tmp_path / "local").mkdir()
    usual = {"class_allow_list": ["nvflare.their.One"], "allow_log_streaming": True}
    (tmp_path / "local/resources.json.default").write_text(json.dumps(usual), encoding="utf-8")
    rights = json.dumps({"permissions": {}})
    (tmp_path / "local/authorization.json.default").write_text(rights, encoding="utf-8")
    settings = json.loads(prepare_kit(tmp_path).read_text(encoding="utf-8"))
    assert settings == json.loads(allowed)
    assert settings["class_allow_list"] == [*CLASSES]


def test_the_reference_is_that_of_the_models():
    """To write it anew: python -m colonnade.config.reference > docs/configuration.md."""
    assert (DOCS / "configuration.md").read_text(encoding="utf-8") == reference()


def test_the_keys_of_a_policy_are_those_of_its_section():
    assert "\n".join(keys_of(PolicyConfig)) in (DOCS / "policy.md").read_text(encoding="utf-8")


def test_every_page_is_in_the_navigation():
    text = (DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8")
    for page in DOCS.glob("*.md"):
        assert f": {page.name}\n" in text


def test_the_presets_of_networks_are_those_of_the_code():
    rows = [
        f"| `{name}` | {preset.about} | {told['up']} | {told['down']} |"
        for name, preset in PRESETS.items()
        for told in [network_told(Network.preset(name, "registry"), ["bank"], "registry")]
    ]
    table = "|---|---|---|---|\n" + "\n".join(rows) + "\n\n"
    assert table in (DOCS / "waiting.md").read_text(encoding="utf-8")
